// Goroutines in the suite `tasks`.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var values = map[string]string{}

func number(name string) int64 {
	n, err := strconv.ParseInt(values[name], 10, 64)
	if err != nil {
		fmt.Fprintf(os.Stderr, "--%s %q: must be a whole number\n", name, values[name])
		os.Exit(2)
	}
	return n
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

func sleep() map[string]any {
	tasks := number("tasks")
	pause := time.Duration(number("pause_ms")) * time.Millisecond
	pauses := int64(1)
	if _, given := values["pauses"]; given {
		pauses = number("pauses")
	}
	var ended atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	all.Add(int(tasks))
	for i := int64(0); i < tasks; i++ {
		go func() {
			for n := int64(0); n < pauses; n++ {
				time.Sleep(pause)
			}
			ended.Add(1)
			all.Done()
		}()
	}
	all.Wait()
	took := time.Since(begin).Seconds()
	var use syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &use)
	peak := float64(use.Maxrss) / 1024
	value := peak
	if values["figure"] == "seconds" {
		value = took
	}
	line := map[string]any{"value": value, "verified": ended.Load() == tasks,
		"note": fmt.Sprintf("%.2f s, %.0f MB, %.2f s of CPU", took, peak, seconds(use.Utime)+seconds(use.Stime))}
	if ended.Load() != tasks {
		line["failure"] = fmt.Sprintf("of %d goroutines %d ended", tasks, ended.Load())
	}
	return line
}

func channel() map[string]any {
	items, producers := number("items"), number("producers")
	pipe := make(chan int64, number("room"))
	begin := time.Now()
	for p := int64(0); p < producers; p++ {
		go func(from, to int64) {
			for i := from; i < to; i++ {
				pipe <- i
			}
		}(items*p/producers, items*(p+1)/producers)
	}
	sum := int64(0)
	for i := int64(0); i < items; i++ {
		sum += <-pipe
	}
	took := time.Since(begin).Seconds()
	line := map[string]any{"value": float64(items) / took, "verified": sum == items*(items-1)/2}
	if sum != items*(items-1)/2 {
		line["failure"] = fmt.Sprintf("the numbers below %d came to %d", items, sum)
	}
	return line
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "the first argument must be a scenario")
		os.Exit(2)
	}
	for i := 2; i+1 < len(os.Args); i += 2 {
		values[os.Args[i][2:]] = os.Args[i+1]
	}
	if _, given := values["threads"]; given {
		runtime.GOMAXPROCS(int(number("threads")))
	}
	var line map[string]any
	switch os.Args[1] {
	case "sleep":
		line = sleep()
	case "channel":
		line = channel()
	default:
		fmt.Fprintf(os.Stderr, "there is no scenario %q; there is: sleep, channel\n", os.Args[1])
		os.Exit(2)
	}
	line["about"] = map[string]any{"libraries": map[string]any{"go": runtime.Version()}, "optimised": true}
	json.NewEncoder(os.Stdout).Encode(line)
}
