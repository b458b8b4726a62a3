//! async-std in the suite `tasks`. What spawns and joins is a task itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use async_std::task::{sleep, JoinHandle};
use async_std::{channel, task};
use rust_tasks::{all_ended, channel_line, refuse, sleep_line, Arguments, Line};

static ENDED: AtomicU64 = AtomicU64::new(0);

async fn sleeper(pause: Duration, pauses: u64) {
    for _ in 0..pauses {
        sleep(pause).await;
    }
    ENDED.fetch_add(1, Relaxed);
}

async fn sleeping(a: Arguments) -> Line {
    let (tasks, pause, pauses) = (a.number("tasks"), a.pause(), a.number_or("pauses", 1));
    let begin = Instant::now();
    let mut handles: Vec<JoinHandle<()>> = Vec::with_capacity(tasks as usize);
    for _ in 0..tasks {
        handles.push(task::spawn(sleeper(pause, pauses)));
    }
    for handle in handles {
        handle.await;
    }
    sleep_line(&a, begin.elapsed().as_secs_f64(), ENDED.load(Relaxed))
}

/// Tasks that end at once, spawned and joined a thousand at a time.
async fn spawn(a: Arguments) -> Line {
    const CROWD: u64 = 1_000;
    let tasks = a.number("tasks");
    let mut handles = Vec::with_capacity(CROWD as usize);
    let mut begin = Instant::now();
    for round in 0..tasks / CROWD {
        if round == 1 {
            begin = Instant::now();
        }
        for _ in 0..CROWD {
            handles.push(task::spawn(async {
                ENDED.fetch_add(1, Relaxed);
            }));
        }
        for handle in handles.drain(..) {
            handle.await;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    all_ended((tasks - CROWD) as f64 / seconds, tasks, ENDED.load(Relaxed))
}

async fn channels(a: Arguments) -> Line {
    let (items, producers) = (a.number("items"), a.number("producers"));
    let (sender, receiver) = channel::bounded::<u64>(a.number("room") as usize);
    let begin = Instant::now();
    for p in 0..producers {
        let sender = sender.clone();
        task::spawn(async move {
            for i in items * p / producers..items * (p + 1) / producers {
                sender.send(i).await.unwrap();
            }
        });
    }
    let mut sum = 0;
    for _ in 0..items {
        sum += receiver.recv().await.unwrap();
    }
    channel_line(items, begin.elapsed().as_secs_f64(), sum)
}

async fn run(a: Arguments) -> Line {
    match a.scenario.as_str() {
        "sleep" => sleeping(a).await,
        "spawn" => spawn(a).await,
        "channel" => channels(a).await,
        other => refuse(&format!(
            "there is no scenario '{other}'; there is: sleep, spawn, channel"
        )),
    }
}

fn main() {
    let a = Arguments::read();
    // Read once, when the first task is spawned; no other thread runs yet.
    std::env::set_var(
        "ASYNC_STD_THREAD_COUNT",
        a.number_or("threads", 1).to_string(),
    );
    let line = task::block_on(async { task::spawn(run(a)).await });
    line.print(&[("async-std", "1.13.2")]);
}
