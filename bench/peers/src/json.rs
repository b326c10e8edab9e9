//! The one line that a measurement prints.

use std::fmt::{Display, Write as _};

/// A JSON object under construction. Names and texts are this program's own and need no escapes.
#[derive(Default)]
pub struct Line(String);

impl Line {
    pub fn text(self, name: &str, value: &str) -> Self {
        self.field(name, format_args!("\"{value}\""))
    }

    pub fn int(self, name: &str, value: impl Display) -> Self {
        self.field(name, value)
    }

    pub fn num(self, name: &str, value: f64, decimals: usize) -> Self {
        self.field(name, format_args!("{value:.decimals$}"))
    }

    fn field(mut self, name: &str, value: impl Display) -> Self {
        let begin = if self.0.is_empty() { '{' } else { ',' };
        let _ = write!(self.0, "{begin}\"{name}\":{value}"); // a String takes everything
        self
    }

    pub fn print(self) {
        println!("{}}}", self.0);
    }
}
