//! What an interruption of the user's process leaves: nothing half-written.

/// Has an interruption remove what is not complete before it ends the process as it would have.
#[cfg(unix)]
pub(crate) fn tidy_up_when_interrupted() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    use crate::cli::output_file::remove_drafts;

    // Without a thread to be had an interruption ends the process as it does any other.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    let handle = signals.handle();
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            remove_drafts();
            let _ = emulate_default_handler(signal);
        }
    };
    if std::thread::Builder::new().spawn(wait).is_err() {
        handle.close();
    }
}

#[cfg(not(unix))]
pub(crate) fn tidy_up_when_interrupted() {}
