//! What this machine has that tests depend on. It is said on standard error, which the test harness
//! does not capture when it is written to directly, so that a run that tested less than another
//! shows it.

use std::io::Write;
use std::process::Command;
use std::sync::OnceLock;

use tract_onnx_cast::kernel::Level;

pub fn say(line: &str) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The number that a variable of the environment is set to.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// The CPU levels that kernels are tested at.
pub fn levels() -> &'static [Level] {
    static LEVELS: OnceLock<Vec<Level>> = OnceLock::new();
    LEVELS.get_or_init(|| {
        let levels: Vec<Level> = Level::available().into_iter().collect();
        let names = levels.iter().map(|level| format!("{level:?}"));
        let names: Vec<String> =
            names.map(|name| name.replace("Level(", "").replace(')', "")).collect();
        say(&format!("tested at the CPU levels {}", names.join(", ")));
        levels
    })
}

/// A browser, if there is one.
pub fn browser() -> Option<&'static str> {
    static BROWSER: OnceLock<Option<&str>> = OnceLock::new();
    *BROWSER.get_or_init(|| {
        let answers = |name: &&str| {
            Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success())
        };
        let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(answers);
        match found {
            Some(name) => say(&format!("pages are opened in {name}")),
            None => say("there is no chromium: pages are NOT opened in a browser"),
        }
        found
    })
}
