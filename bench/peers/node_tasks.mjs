// Promises and timers of Node in the suite `tasks`.
import process from 'node:process';
import { setTimeout as sleepFor } from 'node:timers/promises';

const [scenario, ...rest] = process.argv.slice(2);
const values = {};
for (let i = 0; i + 1 < rest.length; i += 2) values[rest[i].slice(2)] = rest[i + 1];

if (scenario !== 'sleep') {
  console.error(`there is no scenario '${scenario}'; there is: sleep`);
  process.exit(2);
}
const tasks = Number(values.tasks);
const pause = Number(values.pause_ms);
const pauses = Number(values.pauses ?? 1);
let ended = 0;

async function sleeper() {
  for (let i = 0; i < pauses; ++i) await sleepFor(pause);
  ++ended;
}

const begin = performance.now();
const all = new Array(tasks);
for (let i = 0; i < tasks; ++i) all[i] = sleeper();
await Promise.all(all);
const took = (performance.now() - begin) / 1000;
const use = process.resourceUsage();
const peak = use.maxRSS / 1024;
const cpu = (use.userCPUTime + use.systemCPUTime) / 1e6;
const line = {
  value: values.figure === 'seconds' ? took : peak,
  verified: ended === tasks,
  note: `${took.toFixed(2)} s, ${peak.toFixed(0)} MB, ${cpu.toFixed(2)} s of CPU`,
  about: { libraries: { node: process.version }, optimised: true },
};
if (ended !== tasks) line.failure = `of ${tasks} tasks ${ended} ended`;
console.log(JSON.stringify(line));
