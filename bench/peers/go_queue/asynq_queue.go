// asynq in the suite `queue`: what a program that uses it would write, at its defaults but for the concurrency that is asked for.
// Producers, worker and measurement share this process; jobs carry their numbers, and handlers tick them off.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	firstNumber  = 1_000_000_000
	addressBytes = 71
	kind         = "parcel"
	queue        = "default"
	patience     = 100 * time.Second
)

var values = map[string]string{}

func fail(code int, format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(code)
}

func text(name string) string {
	value, given := values[name]
	if !given {
		fail(2, "--%s is missing", name)
	}
	return value
}

func number(name string) int64 {
	n, err := strconv.ParseInt(text(name), 10, 64)
	if err != nil {
		fail(2, "--%s %q: must be a whole number", name, values[name])
	}
	return n
}

func numberOr(name string, otherwise int64) int64 {
	if _, given := values[name]; !given {
		return otherwise
	}
	return number(name)
}

// 100 bytes as JSON, as long as the number has ten digits.
type parcel struct {
	Number int64  `json:"number"`
	To     string `json:"to"`
}

var address = strings.Repeat("a", addressBytes)

func taskOf(n int64) *asynq.Task {
	payload, err := json.Marshal(parcel{n, address})
	if err != nil {
		fail(1, "a payload: %v", err)
	}
	return asynq.NewTask(kind, payload)
}

// A bijection that scatters; it makes pauses irregular, and every run's the same.
func scattered(n uint64) uint64 {
	n ^= n >> 30
	n *= 0xbf58476d1ce4e5b9
	n ^= n >> 27
	n *= 0x94d049bb133111eb
	return n ^ (n >> 31)
}

// At most twice the mean, at least a ninth of it.
func pause(i, meanUs int64) time.Duration {
	least := meanUs / 5
	return time.Duration(least+int64(scattered(uint64(i))%uint64(2*(meanUs-least)))) * time.Microsecond
}

// CPU time that the server has used; the kernel tells it of any process.
func serverCPU() float64 {
	const schedClock = 2
	clock := uintptr(^number("server_pid")<<3 | schedClock)
	var t syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		fail(1, "the CPU time of the server: %v", err)
	}
	return float64(t.Sec) + float64(t.Nsec)/1e9
}

func ownCPU() float64 {
	var use syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &use)
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(use.Utime) + seconds(use.Stime)
}

// The stretch that a row measures.
type window struct {
	begin time.Time
	cpu   float64
}

func open() window { return window{time.Now(), serverCPU()} }

// How much of a core the server used in it.
func (w window) serverBusy() float64 { return (serverCPU() - w.cpu) / time.Since(w.begin).Seconds() }

func serverAddress() string { return strings.TrimPrefix(text("redis"), "redis://") }

// A figure of the server's INFO, over a connection that is none of asynq's.
func info(over *redis.Client, section, field string) float64 {
	all, err := over.Info(context.Background(), section).Result()
	if err != nil {
		fail(1, "INFO %s: %v", section, err)
	}
	for _, line := range strings.Split(all, "\r\n") {
		if value, found := strings.CutPrefix(line, field+":"); found {
			n, _ := strconv.ParseFloat(value, 64)
			return n
		}
	}
	fail(1, "INFO %s has no %s", section, field)
	return 0
}

// Ticks jobs off. Handlers write, main waits.
type tally struct {
	seen    []atomic.Uint32
	foreign atomic.Int64
	handled atomic.Int64
	target  atomic.Int64
	reached chan time.Time
}

func newTally(jobs int64) *tally {
	t := &tally{seen: make([]atomic.Uint32, jobs+1), reached: make(chan time.Time, 1)}
	t.target.Store(math.MaxInt64)
	return t
}

func (t *tally) tick(n int64) {
	if n < 1 || n >= int64(len(t.seen)) {
		t.foreign.Add(1)
	} else {
		t.seen[n].Add(1)
	}
	t.count()
}

func (t *tally) count() {
	if t.handled.Add(1) == t.target.Load() {
		t.reached <- time.Now()
	}
}

// Says when the handler of the job that makes it `jobs` in all ended. Called before that job can be put in, or while others still run.
func (t *tally) expect(jobs int64) { t.target.Store(jobs) }

func (t *tally) wait(what string) time.Time {
	select {
	case at := <-t.reached:
		return at
	case <-time.After(patience):
		fail(1, "%s: after %v %d of %d jobs were handled", what, patience, t.handled.Load(), t.target.Load())
		return time.Time{}
	}
}

// Jobs handled more than once, or that nobody put in.
func (t *tally) wrong() int64 {
	n := t.foreign.Load()
	for i := range t.seen {
		if t.seen[i].Load() > 1 {
			n++
		}
	}
	return n
}

// Producers that share one client, each waiting for its answer before the next job.
type production struct {
	client   *asynq.Client
	next     atomic.Int64
	accepted atomic.Int64
	// An element for each job that may come in now: a job that is handled makes room for another. Nil: no limit.
	room chan struct{}
	// Called once, after the first job that `run` put in.
	first   func()
	options func(n int64) []asynq.Option
}

func newProduction() *production {
	return &production{client: asynq.NewClient(asynq.RedisClientOpt{Addr: serverAddress()})}
}

// Puts in the jobs up to number `last`.
func (p *production) run(producers, last int64) {
	var once sync.Once
	var all sync.WaitGroup
	for range producers {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := p.next.Add(1); n <= last; n = p.next.Add(1) {
				if p.room != nil {
					<-p.room
				}
				var options []asynq.Option
				if p.options != nil {
					options = p.options(n)
				}
				if _, err := p.client.Enqueue(taskOf(firstNumber+n), options...); err != nil {
					fail(1, "enqueue: %v", err)
				}
				p.accepted.Add(1)
				if p.first != nil {
					once.Do(p.first)
				}
			}
		}()
	}
	all.Wait()
	// The last step of each producer went past the end.
	p.next.Store(last)
}

func serve(handle func(n int64)) *asynq.Server {
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: serverAddress()},
		asynq.Config{Concurrency: int(number("concurrency")), LogLevel: asynq.WarnLevel})
	mux := asynq.NewServeMux()
	mux.HandleFunc(kind, func(_ context.Context, t *asynq.Task) error {
		var job parcel
		if err := json.Unmarshal(t.Payload(), &job); err != nil {
			return err
		}
		handle(job.Number)
		return nil
	})
	if err := server.Start(mux); err != nil {
		fail(1, "the server: %v", err)
	}
	return server
}

// What is in the store, checked against what should be: jobs that wait, and none elsewhere.
func inStore(pending, scheduled, processed int64) string {
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: serverAddress()})
	defer inspector.Close()
	q, err := inspector.GetQueueInfo(queue)
	if err != nil {
		return fmt.Sprintf("the queue cannot be inspected: %v", err)
	}
	if int64(q.Pending) != pending || int64(q.Scheduled) != scheduled || int64(q.Size) != pending+scheduled ||
		int64(q.ProcessedTotal) != processed || q.FailedTotal != 0 {
		return fmt.Sprintf("in the store: %d pending, %d scheduled of %d in all, and %d processed, %d failed; should be %d, %d and %d, 0",
			q.Pending, q.Scheduled, q.Size, q.ProcessedTotal, q.FailedTotal, pending, scheduled, processed)
	}
	return ""
}

func lineOf(value float64, failure string) map[string]any {
	libraries := map[string]any{"go": runtime.Version()}
	if build, found := debug.ReadBuildInfo(); found {
		for _, module := range build.Deps {
			if module.Path == "github.com/hibiken/asynq" {
				libraries["asynq"] = strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	line := map[string]any{"value": value, "verified": failure == "", "about": map[string]any{"libraries": libraries}}
	if failure != "" {
		line["failure"] = failure
	}
	return line
}

// From the first enqueue to the end of the last handler.
func e2e() map[string]any {
	waiting, warmup, jobs := numberOr("waiting", 0), number("warmup"), number("jobs")
	concurrency, producers := number("concurrency"), number("producers")
	ticks := newTally(waiting + warmup + jobs)
	put := newProduction()
	put.run(producers, waiting)

	// asynq looks for jobs about once a second while its queue is empty. That is what the latency rows show; so that this row shows the
	// rate alone, the last handlers of the warm-up keep its worker awake until the first job is in.
	awake := make(chan struct{})
	var held atomic.Int64
	holding := waiting == 0
	if n := numberOr("window", 0); n > 0 {
		put.room = make(chan struct{}, n+waiting+warmup+jobs)
		for range n {
			put.room <- struct{}{}
		}
	}
	server := serve(func(n int64) {
		n -= firstNumber
		if put.room != nil {
			put.room <- struct{}{}
		}
		if holding && n <= warmup && n > warmup-concurrency {
			held.Add(1)
			<-awake
		}
		ticks.tick(n)
	})
	if holding {
		put.run(producers, warmup)
		for since := time.Now(); held.Load() < min(concurrency, warmup); time.Sleep(time.Millisecond) {
			if time.Since(since) > patience {
				fail(1, "the warm-up did not end: %d of %d jobs were handled", ticks.handled.Load(), warmup)
			}
		}
		ticks.expect(warmup + jobs)
		put.first = func() { close(awake) }
	} else {
		ticks.expect(warmup)
		put.run(producers, waiting+warmup)
		ticks.wait("the warm-up")
		ticks.expect(ticks.handled.Load() + jobs)
	}
	measured := open()
	put.run(producers, waiting+warmup+jobs)
	end := ticks.wait("the jobs")
	busy := measured.serverBusy()
	server.Shutdown()

	failure := ""
	handled := ticks.handled.Load()
	if handled > waiting+warmup+jobs || waiting == 0 && handled != warmup+jobs || ticks.wrong() != 0 {
		failure = fmt.Sprintf("of %d jobs %d were handled, %d of them twice or unknown", waiting+warmup+jobs, handled, ticks.wrong())
	} else {
		failure = inStore(waiting+warmup+jobs-handled, 0, handled)
	}
	line := lineOf(float64(jobs)/end.Sub(measured.begin).Seconds(), failure)
	line["server_busy"] = busy
	return line
}

// From the first enqueue to the last answer; nobody takes them.
func enqueue() map[string]any {
	warmup, jobs, producers := number("warmup"), number("jobs"), number("producers")
	put := newProduction()
	put.run(producers, warmup)
	measured := open()
	put.run(producers, warmup+jobs)
	took := time.Since(measured.begin)
	busy := measured.serverBusy()
	line := lineOf(float64(jobs)/took.Seconds(), inStore(warmup+jobs, 0, 0))
	line["server_busy"] = busy
	return line
}

func percentiles(milliseconds []float64) (p50, p95, p99, worst float64) {
	slices.Sort(milliseconds)
	at := func(percent float64) float64 {
		rank := max(1, int(math.Ceil(percent/100*float64(len(milliseconds)))))
		return milliseconds[rank-1]
	}
	return at(50), at(95), at(99), at(100)
}

func latencyLine(milliseconds []float64, samples int64, failure string) map[string]any {
	if int64(len(milliseconds)) != samples && failure == "" {
		failure = fmt.Sprintf("of %d jobs %d were handled", samples, len(milliseconds))
	}
	if len(milliseconds) == 0 {
		return lineOf(0, "nothing was measured")
	}
	p50, p95, p99, worst := percentiles(milliseconds)
	line := lineOf(max(0, p99/1000), failure)
	line["latency_ms"] = map[string]any{"p50": p50, "p95": p95, "p99": p99}
	line["note"] = fmt.Sprintf("The slowest of %d took %.3g ms.", samples, worst)
	return line
}

// From the moment before the enqueue to the handler's first statement, one job at a time, at irregular moments.
func latency() map[string]any {
	warmup, samples, mean := number("warmup"), number("samples"), number("pause_us")
	var lock sync.Mutex
	var milliseconds []float64
	ticks := newTally(0)
	server := serve(func(stamp int64) {
		took := float64(time.Now().UnixNano()-stamp) / 1e6
		lock.Lock()
		milliseconds = append(milliseconds, took)
		lock.Unlock()
		ticks.count()
	})
	put := newProduction()
	send := func(n int64) {
		for i := range n {
			time.Sleep(pause(i, mean))
			if _, err := put.client.Enqueue(taskOf(time.Now().UnixNano())); err != nil {
				fail(1, "enqueue: %v", err)
			}
		}
	}
	ticks.expect(warmup)
	send(warmup)
	ticks.wait("the warm-up")
	ticks.expect(warmup + samples)
	send(samples)
	ticks.wait("the jobs")
	server.Shutdown()
	measured := milliseconds[min(warmup, int64(len(milliseconds))):]
	return latencyLine(measured, samples, inStore(0, 0, warmup+samples))
}

// A number of jobs due at the same moment: from that moment to the end of the last handler.
func promotion() map[string]any {
	warmup, jobs, producers := number("warmup"), number("jobs"), number("producers")
	ticks := newTally(warmup + jobs)
	var due time.Time
	var first, early atomic.Int64
	server := serve(func(n int64) {
		if n -= firstNumber; n > warmup {
			if late := time.Since(due); late < 0 {
				early.Add(1)
			} else {
				first.CompareAndSwap(0, int64(late))
			}
		}
		ticks.tick(n)
	})
	put := newProduction()
	ticks.expect(warmup)
	put.run(producers, warmup)
	ticks.wait("the warm-up")

	ticks.expect(warmup + jobs)
	// A whole second, for asynq keeps no finer times.
	due = time.Now().Truncate(time.Second).Add(time.Duration(number("due_in_s")) * time.Second)
	put.options = func(int64) []asynq.Option { return []asynq.Option{asynq.ProcessAt(due)} }
	put.run(producers, warmup+jobs)
	failure := ""
	if time.Now().After(due) {
		failure = "the jobs were not all in the store before they were due"
	}
	end := ticks.wait("the jobs")
	server.Shutdown()
	if ticks.wrong() != 0 || early.Load() != 0 {
		failure = fmt.Sprintf("%d jobs were handled twice or are unknown, %d too early", ticks.wrong(), early.Load())
	}
	if failure == "" {
		failure = inStore(0, 0, warmup+jobs)
	}
	line := lineOf(float64(jobs)/end.Sub(due).Seconds(), failure)
	line["note"] = fmt.Sprintf("The first was started %.3g s after it was due.", time.Duration(first.Load()).Seconds())
	return line
}

// Few jobs, each due at a moment of its own: how long after it the handler starts.
func lateness() map[string]any {
	samples, producers := number("samples"), number("producers")
	span, ahead := number("span_ms"), number("ahead_ms")
	due := make([]time.Time, samples+1)
	var lock sync.Mutex
	var milliseconds []float64
	var early int64
	ticks := newTally(samples)
	server := serve(func(n int64) {
		n -= firstNumber
		late := float64(time.Since(due[n])) / 1e6
		lock.Lock()
		milliseconds = append(milliseconds, late)
		if late < 0 {
			early++
		}
		lock.Unlock()
		ticks.tick(n)
	})
	put := newProduction()
	begin := time.Now().Add(time.Duration(ahead) * time.Millisecond)
	for n := range samples {
		due[n+1] = begin.Add(time.Duration(scattered(uint64(n+1))%uint64(span*1000)) * time.Microsecond)
	}
	put.options = func(n int64) []asynq.Option { return []asynq.Option{asynq.ProcessAt(due[n])} }
	ticks.expect(samples)
	put.run(producers, samples)
	ticks.wait("the jobs")
	server.Shutdown()
	failure := ""
	if ticks.wrong() != 0 {
		failure = fmt.Sprintf("%d jobs were handled twice or are unknown", ticks.wrong())
	} else {
		failure = inStore(0, 0, samples)
	}
	line := latencyLine(milliseconds, samples, failure)
	if early > 0 {
		line["note"] = fmt.Sprintf("%v %d were started before they were due, up to %.3g ms.", line["note"], early, -milliseconds[0])
	}
	return line
}

// What a waiting job takes of the server's memory.
func memory() map[string]any {
	jobs, producers := number("jobs"), number("producers")
	put := newProduction()
	put.run(producers, producers)
	over := redis.NewClient(&redis.Options{Addr: serverAddress()})
	defer over.Close()
	before := info(over, "memory", "used_memory")
	put.run(producers, producers+jobs)
	after := info(over, "memory", "used_memory")
	return lineOf((after-before)/float64(jobs), inStore(producers+jobs, 0, 0))
}

// What a worker with nothing to do costs in a minute: its CPU time, or the commands that it sends.
func idle() map[string]any {
	warmup := number("warmup")
	ticks := newTally(warmup)
	server := serve(func(n int64) { ticks.tick(n - firstNumber) })
	put := newProduction()
	ticks.expect(warmup)
	put.run(4, warmup)
	ticks.wait("the warm-up")
	// What follows the work is not idling.
	time.Sleep(2 * time.Second)
	over := redis.NewClient(&redis.Options{Addr: serverAddress()})
	defer over.Close()
	info(over, "stats", "total_commands_processed")
	before := info(over, "stats", "total_commands_processed")
	measured, ownBefore := open(), ownCPU()
	time.Sleep(time.Duration(number("seconds")) * time.Second)
	used := ownCPU() - ownBefore
	ofServer := measured.serverBusy()
	seconds := time.Since(measured.begin).Seconds()
	// An INFO counts from the next one on.
	commands := info(over, "stats", "total_commands_processed") - before - 1
	server.Shutdown()
	cpu, rate := used*60/seconds, commands*60/seconds
	value := cpu
	if text("figure") == "commands" {
		value = rate
	}
	failure := inStore(0, 0, warmup)
	if ticks.wrong() != 0 {
		failure = fmt.Sprintf("%d jobs were handled twice or are unknown", ticks.wrong())
	}
	line := lineOf(value, failure)
	line["note"] = fmt.Sprintf("In a minute: %.3g ms of CPU time, %.0f commands, %.3g ms of the server's CPU time.", cpu*1000, rate, ofServer*60000)
	return line
}

func main() {
	scenarios := map[string]func() map[string]any{"e2e": e2e, "enqueue": enqueue, "latency": latency, "promotion": promotion,
		"lateness": lateness, "memory": memory, "idle": idle}
	if len(os.Args) < 2 || len(os.Args)%2 != 0 {
		fail(2, "usage: SCENARIO --name value …")
	}
	scenario, known := scenarios[os.Args[1]]
	if !known {
		fail(2, "there is no scenario '%s'", os.Args[1])
	}
	for i := 2; i < len(os.Args); i += 2 {
		values[strings.TrimPrefix(os.Args[i], "--")] = os.Args[i+1]
	}
	if style := text("producer_style"); style != "await" {
		fail(2, "--producer_style %s: asynq has no call that enqueues several jobs", style)
	}
	line, err := json.Marshal(scenario())
	if err != nil {
		fail(1, "the result: %v", err)
	}
	fmt.Println(string(line))
}
