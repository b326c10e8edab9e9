//! The distribution of latencies as a drawing: percentiles from left to right, each tenth of the rest as wide as the
//! one before; latency upwards, each power of ten as high as the one before.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::report::{Report, duration};

/// The whole drawing, and the place of its axes, in pixels.
const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 450.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 765.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 400.0;

/// Percentiles that are marked: 1 less a tenth, a hundredth, …
const MARKS: [&str; 6] = ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"];

/// Points of a curve for each mark.
const STEPS: u32 = 40;

/// One for each operation of a run; told apart by people who see few colours.
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];

/// The drawing as an SVG document.
pub fn svg(report: &Report) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    text(&mut out, LEFT, 24.0, "start", &report.title());
    let scale = Scale::of(report.operations.iter().map(|(_, latency)| latency));
    scale.grid(&mut out);
    for (number, (operation, latency)) in report.operations.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points: Vec<String> = scale.curve(latency);
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
            points.join(" ")
        );
        let x = LEFT + 120.0 * number as f64;
        let _ = writeln!(out, "<rect x=\"{x}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{colour}\"/>");
        text(&mut out, x + 18.0, 46.0, "start", operation.as_str());
    }
    out.push_str("</svg>\n");
    out
}

/// Where percentiles and latencies are drawn.
struct Scale {
    /// The powers of ten, in nanoseconds, at the bottom and at the top.
    lowest: u32,
    highest: u32,
    /// How many of [`MARKS`] there are enough values for.
    marks: u32,
}

impl Scale {
    fn of<'a>(latencies: impl Iterator<Item = &'a Histogram<u64>>) -> Self {
        let (mut min, mut max, mut most) = (u64::MAX, 1, 1);
        for latency in latencies {
            min = min.min(latency.min());
            max = max.max(latency.max());
            most = most.max(latency.len());
        }
        let lowest = min.min(max).max(1).ilog10();
        Self {
            lowest,
            highest: (max.ilog10() + 1).max(lowest + 1),
            marks: most.ilog10().clamp(1, MARKS.len() as u32 - 1),
        }
    }

    /// `nines` is how many nines a percentile begins with: 0 for 0 %, 2 for 99 %.
    fn x(&self, nines: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * nines / f64::from(self.marks)
    }

    fn y(&self, ns: u64) -> f64 {
        let decades = (ns.max(1) as f64).log10() - f64::from(self.lowest);
        BOTTOM - (BOTTOM - TOP) * decades / f64::from(self.highest - self.lowest)
    }

    fn grid(&self, out: &mut String) {
        let line = |out: &mut String, x1: f64, y1: f64, x2: f64, y2: f64| {
            let _ = writeln!(
                out,
                "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ccc\"/>"
            );
        };
        for (nines, name) in (0..=self.marks).zip(MARKS) {
            let x = self.x(nines.into());
            line(out, x, TOP, x, BOTTOM);
            text(out, x, BOTTOM + 18.0, "middle", name);
        }
        for power in self.lowest..=self.highest {
            let y = self.y(10_u64.pow(power));
            line(out, LEFT, y, RIGHT, y);
            text(out, LEFT - 8.0, y + 4.0, "end", &duration(10_u64.pow(power)));
        }
        text(out, f64::midpoint(LEFT, RIGHT), BOTTOM + 38.0, "middle", "percentile");
    }

    fn curve(&self, latency: &Histogram<u64>) -> Vec<String> {
        let steps = 0..=self.marks * STEPS;
        let points = steps.map(|step| {
            let nines = f64::from(step) / f64::from(STEPS);
            let ns = latency.value_at_quantile(1.0 - 10_f64.powf(-nines));
            format!("{:.1},{:.1}", self.x(nines), self.y(ns))
        });
        points.collect()
    }
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, what: &str) {
    let what = what.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{what}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut latency = Histogram::new_with_bounds(1, 1_000_000_000, 3).unwrap();
        for value in values {
            latency.record(value).unwrap();
        }
        latency
    }

    #[test]
    fn the_scale_holds_every_value() {
        for values in [vec![], vec![1], vec![1_000], vec![999, 5_000_000], (1..=2_000).collect()] {
            let latency = latency(values.iter().copied());
            let scale = Scale::of([&latency].into_iter());
            for ns in values.into_iter().chain([latency.max()]) {
                let y = scale.y(ns);
                assert!((TOP..=BOTTOM).contains(&y), "{ns} ns at {y}");
            }
            for point in scale.curve(&latency) {
                let (x, y) = point.split_once(',').unwrap();
                assert!((LEFT..=RIGHT).contains(&x.parse().unwrap()), "{point}");
                assert!(y.parse::<f64>().unwrap().is_finite(), "{point}");
            }
        }
    }

    #[test]
    fn as_many_nines_are_drawn_as_there_are_values_for() {
        let marks = |count| Scale::of([&latency((1..=count).map(|_| 5))].into_iter()).marks;
        assert_eq!([1, 10, 999, 1_000, 100_000].map(marks), [1, 1, 2, 3, 5]);
    }

    #[test]
    fn a_text_cannot_end_its_element() {
        let mut out = String::new();
        text(&mut out, 0.0, 0.0, "start", "a<b&c>");
        assert!(out.contains(">a&lt;b&amp;c&gt;</text>"), "{out}");
    }
}
