//! tokio in the suite `tasks`: the multi-thread runtime with as many workers as the row has threads. What spawns and joins is a task
//! itself, on a worker, where tokio is faster than from `block_on`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rust_tasks::{all_ended, channel_line, refuse, resident_mb, sleep_line, Arguments, Line};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

static ENDED: AtomicU64 = AtomicU64::new(0);

async fn sleeper(pause: Duration, pauses: u64) {
    for _ in 0..pauses {
        sleep(pause).await;
    }
    ENDED.fetch_add(1, Relaxed);
}

async fn sleepers(tasks: u64, pause: Duration, pauses: u64) {
    let mut handles: Vec<JoinHandle<()>> = Vec::with_capacity(tasks as usize);
    for _ in 0..tasks {
        handles.push(tokio::spawn(sleeper(pause, pauses)));
    }
    for handle in handles {
        handle.await.unwrap();
    }
}

async fn sleeping(a: Arguments) -> Line {
    let begin = Instant::now();
    sleepers(a.number("tasks"), a.pause(), a.number_or("pauses", 1)).await;
    sleep_line(&a, begin.elapsed().as_secs_f64(), ENDED.load(Relaxed))
}

/// What stays a second after all have ended, in a program that lives on.
async fn after(a: Arguments) -> Line {
    sleepers(a.number("tasks"), a.pause(), 1).await;
    sleep(Duration::from_secs(1)).await;
    all_ended(resident_mb(), a.number("tasks"), ENDED.load(Relaxed))
}

async fn cancel(a: Arguments) -> Line {
    let tasks = a.number("tasks");
    let mut handles = Vec::with_capacity(tasks as usize);
    for _ in 0..tasks {
        handles.push(tokio::spawn(sleeper(Duration::from_secs(3600), 1)));
    }
    sleep(Duration::from_millis(500)).await;
    let begin = Instant::now();
    for handle in &handles {
        handle.abort();
    }
    let mut stopped = 0;
    for handle in handles {
        stopped += u64::from(handle.await.is_err_and(|e| e.is_cancelled()));
    }
    all_ended(begin.elapsed().as_secs_f64(), tasks, stopped)
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
            handles.push(tokio::spawn(async {
                ENDED.fetch_add(1, Relaxed);
            }));
        }
        for handle in handles.drain(..) {
            handle.await.unwrap();
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    all_ended((tasks - CROWD) as f64 / seconds, tasks, ENDED.load(Relaxed))
}

async fn channel(a: Arguments) -> Line {
    let (items, producers) = (a.number("items"), a.number("producers"));
    let (sender, mut receiver) = mpsc::channel::<u64>(a.number("room") as usize);
    let begin = Instant::now();
    for p in 0..producers {
        let sender = sender.clone();
        tokio::spawn(async move {
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

const MESSAGE: usize = 64;

async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0u8; MESSAGE];
    // The client closes when it has had all its echoes.
    while stream.read_exact(&mut message).await.is_ok() {
        stream.write_all(&message).await?;
    }
    Ok(())
}

/// Gives how many echoes were what was sent.
async fn ask(mut stream: TcpStream, round_trips: u64) -> std::io::Result<u64> {
    let mut right = 0;
    for i in 0..round_trips {
        let sent = [i as u8; MESSAGE];
        let mut got = [0u8; MESSAGE];
        stream.write_all(&sent).await?;
        stream.read_exact(&mut got).await?;
        right += u64::from(sent == got);
    }
    Ok(right)
}

/// Clients and their server in one process, on the same threads.
async fn pingpong(a: Arguments) -> std::io::Result<Line> {
    let (connections, round_trips) = (a.number("connections"), a.number("round_trips"));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        for _ in 0..connections {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(echo(stream));
        }
    });
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let begin = Instant::now();
    let mut clients = Vec::new();
    for (c, stream) in (0..).zip(streams) {
        let share = round_trips * (c + 1) / connections - round_trips * c / connections;
        clients.push(tokio::spawn(ask(stream, share)));
    }
    let mut right = 0;
    for client in clients {
        right += client.await.unwrap()?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let failure = format!("of {round_trips} echoes {right} were what was sent");
    Ok(Line::new(
        round_trips as f64 / seconds,
        right == round_trips,
        failure,
    ))
}

async fn run(a: Arguments) -> Line {
    match a.scenario.as_str() {
        "sleep" => sleeping(a).await,
        "after" => after(a).await,
        "cancel" => cancel(a).await,
        "spawn" => spawn(a).await,
        "channel" => channel(a).await,
        "ping_pong" => match pingpong(a).await {
            Ok(line) => line,
            Err(e) => {
                eprintln!("{e}");
                std::process::exit(1)
            }
        },
        other => refuse(&format!("there is no scenario '{other}'; there is: sleep, after, cancel, spawn, channel, ping_pong")),
    }
}

fn main() {
    let a = Arguments::read();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(a.number_or("threads", 1) as usize)
        .enable_all()
        .build()
        .unwrap();
    let line = runtime.block_on(async { tokio::spawn(run(a)).await.unwrap() });
    line.print(&[("tokio", "1.54.1")]);
}
