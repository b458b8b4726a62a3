// Goroutines in the suite `tasks`.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
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

// skynet gives the sum of the numbers of the leaves below a node: first is the lowest, leaves how many. A goroutine per node.
func skynet(to chan<- int64, first, leaves int64) {
	if leaves == 1 {
		to <- first
		return
	}
	below := make(chan int64)
	for i := int64(0); i < 10; i++ {
		go skynet(below, first+i*leaves/10, leaves/10)
	}
	sum := int64(0)
	for i := 0; i < 10; i++ {
		sum += <-below
	}
	to <- sum
}

func skynetLine() map[string]any {
	leaves := number("leaves")
	for whole := int64(1); whole != leaves; whole *= 10 {
		if whole > leaves {
			fmt.Fprintf(os.Stderr, "--leaves %d: must be a power of ten\n", leaves)
			os.Exit(2)
		}
	}
	result := make(chan int64)
	begin := time.Now()
	go skynet(result, 0, leaves)
	sum := <-result
	took := time.Since(begin).Seconds()
	wanted := leaves * (leaves - 1) / 2
	line := map[string]any{"value": took, "verified": sum == wanted}
	if sum != wanted {
		line["failure"] = fmt.Sprintf("the result is %d, it should be %d", sum, wanted)
	}
	return line
}

const messageSize = 64

func echo(with net.Conn) {
	defer with.Close()
	message := make([]byte, messageSize)
	for {
		// The client closes when it has had all its echoes.
		if _, err := io.ReadFull(with, message); err != nil {
			return
		}
		if _, err := with.Write(message); err != nil {
			return
		}
	}
}

// ask gives how many echoes were what was sent.
func ask(with net.Conn, roundTrips int64) (right int64) {
	defer with.Close()
	sent, got := make([]byte, messageSize), make([]byte, messageSize)
	for i := int64(0); i < roundTrips; i++ {
		sent[i%messageSize]++
		if _, err := with.Write(sent); err != nil {
			return right
		}
		if _, err := io.ReadFull(with, got); err != nil {
			return right
		}
		if bytes.Equal(sent, got) {
			right++
		}
	}
	return right
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

// ping_pong has clients and their server in one process, on the same threads. Go sets TCP_NODELAY by itself.
func pingpong() map[string]any {
	connections, roundTrips := number("connections"), number("round_trips")
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	go func() {
		for i := int64(0); i < connections; i++ {
			go echo(must(listener.Accept()))
		}
	}()
	clients := make([]net.Conn, connections)
	for i := range clients {
		clients[i] = must(net.Dial("tcp", listener.Addr().String()))
	}
	var right atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for i, client := range clients {
		share := roundTrips*int64(i+1)/connections - roundTrips*int64(i)/connections
		all.Add(1)
		go func(client net.Conn) {
			right.Add(ask(client, share))
			all.Done()
		}(client)
	}
	all.Wait()
	took := time.Since(begin).Seconds()
	line := map[string]any{"value": float64(roundTrips) / took, "verified": right.Load() == roundTrips}
	if right.Load() != roundTrips {
		line["failure"] = fmt.Sprintf("of %d echoes %d were what was sent", roundTrips, right.Load())
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
	case "fork_join_skynet":
		line = skynetLine()
	case "ping_pong":
		line = pingpong()
	default:
		fmt.Fprintf(os.Stderr, "there is no scenario %q; there is: sleep, channel, fork_join_skynet, ping_pong\n", os.Args[1])
		os.Exit(2)
	}
	line["about"] = map[string]any{"libraries": map[string]any{"go": runtime.Version()}, "optimised": true}
	json.NewEncoder(os.Stdout).Encode(line)
}
