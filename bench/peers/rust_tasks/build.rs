//! Tells the programs which compiler made them.

use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap();
    let said = Command::new(rustc)
        .arg("--version")
        .output()
        .unwrap()
        .stdout;
    let release = String::from_utf8(said)
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .to_string();
    println!("cargo:rustc-env=RUSTC_RELEASE={release}");
    println!("cargo:rerun-if-changed=build.rs");
}
