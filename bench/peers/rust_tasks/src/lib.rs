//! What the two programs share: `SCENARIO --name value …` in, one line of JSON out.

use std::collections::HashMap;
use std::time::Duration;

pub struct Arguments {
    pub scenario: String,
    values: HashMap<String, String>,
}

impl Arguments {
    pub fn read() -> Self {
        let mut given = std::env::args().skip(1);
        let Some(scenario) = given.next() else {
            refuse("the first argument must be a scenario");
        };
        let mut values = HashMap::new();
        while let (Some(name), Some(value)) = (given.next(), given.next()) {
            values.insert(name.trim_start_matches("--").to_string(), value);
        }
        Arguments { scenario, values }
    }

    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    pub fn number(&self, name: &str) -> u64 {
        match self.text(name).parse() {
            Ok(number) => number,
            Err(_) => refuse(&format!(
                "--{name} '{}': must be a whole number",
                self.text(name)
            )),
        }
    }

    pub fn number_or(&self, name: &str, otherwise: u64) -> u64 {
        if self.values.contains_key(name) {
            self.number(name)
        } else {
            otherwise
        }
    }

    pub fn pause(&self) -> Duration {
        Duration::from_millis(self.number("pause_ms"))
    }
}

/// Ends the program for arguments that it cannot use.
pub fn refuse(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(2);
}

pub struct Line {
    pub value: f64,
    pub verified: bool,
    /// Why not, where the work did not check.
    pub failure: String,
    pub note: String,
}

impl Line {
    pub fn new(value: f64, verified: bool, failure: String) -> Self {
        Line {
            value,
            verified,
            failure,
            note: String::new(),
        }
    }

    /// `libraries` is a list of names and versions. No text here holds what JSON would escape.
    pub fn print(&self, libraries: &[(&str, &str)]) {
        let mut about: Vec<String> = libraries
            .iter()
            .map(|(name, version)| format!("\"{name}\":\"{version}\""))
            .collect();
        about.push(format!("\"rustc\":\"{}\"", env!("RUSTC_RELEASE")));
        let failure = if self.verified {
            String::new()
        } else {
            format!("\"failure\":\"{}\",", self.failure)
        };
        let note = if self.note.is_empty() {
            String::new()
        } else {
            format!("\"note\":\"{}\",", self.note)
        };
        println!(
            "{{\"value\":{},\"verified\":{},{failure}{note}\"about\":{{\"libraries\":{{{}}},\"optimised\":{}}}}}",
            self.value,
            self.verified,
            about.join(","),
            !cfg!(debug_assertions)
        );
    }
}

/// Of `sleep`: the peak of memory or the time, as asked, with both and the CPU time in the note.
pub fn sleep_line(a: &Arguments, seconds: f64, ended: u64) -> Line {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds_of = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    let peak = usage.ru_maxrss as f64 / 1024.0;
    let value = if a.text("figure") == "seconds" {
        seconds
    } else {
        peak
    };
    let mut line = all_ended(value, a.number("tasks"), ended);
    line.note = format!(
        "{seconds:.2} s, {peak:.0} MB, {:.2} s of CPU",
        seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime)
    );
    line
}

pub fn all_ended(value: f64, tasks: u64, ended: u64) -> Line {
    Line::new(
        value,
        ended == tasks,
        format!("of {tasks} tasks {ended} ended as they should"),
    )
}

/// Of `channel`: items a second, if the numbers below `items` came through, which their sum tells.
pub fn channel_line(items: u64, seconds: f64, sum: u64) -> Line {
    Line::new(
        items as f64 / seconds,
        sum == items * (items - 1) / 2,
        format!("the numbers below {items} came to {sum}"),
    )
}

pub fn resident_mb() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    (pages * page) as f64 / (1024.0 * 1024.0)
}
