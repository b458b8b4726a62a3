"""Coroutines of Python's asyncio in the suite `tasks`: one thread, joined by `gather`."""

import asyncio
import json
import platform
import resource
import sys
import time

if len(sys.argv) < 2:
    sys.exit("the first argument must be a scenario")
scenario = sys.argv[1]
values = {name.removeprefix("--"): value for name, value in zip(sys.argv[2::2], sys.argv[3::2])}
if scenario != "sleep":
    print(f"there is no scenario '{scenario}'; there is: sleep", file=sys.stderr)
    sys.exit(2)

tasks = int(values["tasks"])
pause = int(values["pause_ms"]) / 1000
pauses = int(values.get("pauses", "1"))
ended = 0


async def sleeper():
    global ended
    for _ in range(pauses):
        await asyncio.sleep(pause)
    ended += 1


async def all_of_them():
    await asyncio.gather(*(sleeper() for _ in range(tasks)))


begin = time.perf_counter()
asyncio.run(all_of_them())
took = time.perf_counter() - begin
use = resource.getrusage(resource.RUSAGE_SELF)
peak = use.ru_maxrss / 1024
line = {
    "value": took if values.get("figure") == "seconds" else peak,
    "verified": ended == tasks,
    "note": f"{took:.2f} s, {peak:.0f} MB, {use.ru_utime + use.ru_stime:.2f} s of CPU",
    "about": {"libraries": {"python": platform.python_version()}, "optimised": True},
}
if ended != tasks:
    line["failure"] = f"of {tasks} tasks {ended} ended"
print(json.dumps(line))
