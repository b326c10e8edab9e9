//! The signals that this program is sent.

use std::future::poll_fn;
use std::io;
use std::process;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use super::sys;

/// What asks a program to end. Ignored ones stay ignored, for this program and for the command: nohup(1) and shells
/// that start something in the background mean it.
const INTERRUPTS: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// What else is passed on to the command.
const PASSED_ON: [Signal; 5] = [Signal::USR1, Signal::USR2, Signal::ALARM, Signal::WINCH, Signal::TSTP];

/// What is about the command: it may go on; it stopped or ended. In this order, so that a stop that was taken back is
/// not looked at.
const ABOUT_COMMAND: [Signal; 2] = [Signal::CONT, Signal::CHILD];

/// A stream of signals.
pub struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Listens to what asks a program to end. From here on these no longer end it by themselves.
    pub fn interrupts() -> io::Result<Self> {
        let mut signals = Self { streams: Vec::new() };
        signals.listen(INTERRUPTS.into_iter().filter(|signal| !sys::is_ignored(*signal)))?;
        Ok(signals)
    }

    /// Listens to everything that matters while a command runs.
    pub fn listen_for_command(&mut self) -> io::Result<()> {
        // Whoever watches over the command must not be stopped for writing to the terminal or changing its foreground.
        sys::block(Signal::TTOU);
        self.listen(PASSED_ON.into_iter().filter(|signal| !sys::is_ignored(*signal)))?;
        self.listen(ABOUT_COMMAND)
    }

    /// The next signal.
    pub async fn recv(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    fn listen(&mut self, signals: impl IntoIterator<Item = Signal>) -> io::Result<()> {
        for signal in signals {
            self.streams.push((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
            sys::unblock(signal);
        }
        Ok(())
    }

    /// Listens to the end of children alone, so that tests in one process do not get each other's signals.
    #[cfg(test)]
    pub fn of_children() -> io::Result<Self> {
        let mut signals = Self { streams: Vec::new() };
        signals.listen([Signal::CHILD])?;
        Ok(signals)
    }
}

/// Ends this program by `signal`, so that its parent sees that it did not end by itself.
pub fn end_by(signal: Signal) -> ! {
    sys::take_as_default(signal);
    // The first process of a container does not end by such a signal.
    process::exit(128 + signal.as_raw())
}
