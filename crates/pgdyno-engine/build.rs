//! Tells the engine which commit it is built from; it stands in every result.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rerun-if-changed=..");
    println!("cargo::rustc-env=PGDYNO_COMMIT={commit}");
    let profile = std::env::var("PROFILE").unwrap_or_default();
    println!("cargo::rustc-env=PGDYNO_PROFILE={profile}");
}
