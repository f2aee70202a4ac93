//! The trade-off of thresholds as a picture: good answers refused to the right, failures let
//! through upwards; the nearer to the corner the better.

use lanekeeper_model::replay::{Candidate, Suggestions, Verdict};
use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 480.0;
const MARGIN: f64 = 64.0;

/// Thresholds as the document writes them.
pub(super) fn thresholds(it: &Candidate) -> String {
    let mut text = format!("mode: {}", it.mode);
    // Writing to a text cannot fail.
    if let Some(n) = it.consecutive_n {
        _ = write!(text, ", consecutive_n: {n}");
    }
    if let (Some(threshold), Some(min), Some(window)) =
        (it.threshold, it.min_requests, it.window_secs)
    {
        _ = write!(
            text,
            ", threshold: {threshold}, min_requests: {min}, window_secs: {window}"
        );
    }
    _ = write!(text, "; base_cooldown_secs: {}", it.base_cooldown_secs);
    text
}

/// The picture, as SVG.
pub(super) fn svg(title: &str, found: &Suggestions, replayed: &Verdict) -> String {
    let own = (replayed.successes_refused, replayed.failures_let_through);
    let all = found
        .tried
        .iter()
        .map(|it| (it.successes_refused, it.failures_let_through))
        .chain([own]);
    let (right, top) = all.fold((1, 1), |(right, top), (x, y)| (right.max(x), top.max(y)));
    let x = |value: u64| MARGIN + value as f64 / right as f64 * (WIDTH - 2.0 * MARGIN);
    let y = |value: u64| HEIGHT - MARGIN - value as f64 / top as f64 * (HEIGHT - 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"28\" font-size=\"16\">{}</text>\n",
        escaped(title)
    );
    let (left, bottom) = (x(0), y(0));
    let (end, head) = (x(right), y(top));
    _ = write!(
        out,
        "<path d=\"M{left} {head}V{bottom}H{end}\" fill=\"none\" stroke=\"#444\"/>\n\
         <text x=\"{end}\" y=\"{}\" text-anchor=\"end\">good answers refused, up to {right}</text>\n\
         <text x=\"{left}\" y=\"{}\">failures let through, up to {top}</text>\n",
        bottom + 28.0,
        head - 10.0
    );
    for it in &found.tried {
        let (cx, cy) = (x(it.successes_refused), y(it.failures_let_through));
        _ = writeln!(
            out,
            "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" fill=\"#bbb\"><title>{}</title></circle>",
            escaped(&thresholds(it))
        );
    }
    let line: Vec<String> = { found.best.iter() }
        .map(|it| {
            format!(
                "{:.1},{:.1}",
                x(it.successes_refused),
                y(it.failures_let_through)
            )
        })
        .collect();
    _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#06c\"/>",
        line.join(" ")
    );
    for it in &found.best {
        let (cx, cy) = (x(it.successes_refused), y(it.failures_let_through));
        let radius = if found.recommended() == Some(it) {
            7
        } else {
            4
        };
        _ = writeln!(
            out,
            "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"{radius}\" fill=\"#06c\"><title>{}</title></circle>",
            escaped(&thresholds(it))
        );
    }
    let (cx, cy) = (x(own.0), y(own.1));
    _ = write!(
        out,
        "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"6\" fill=\"none\" stroke=\"#c30\" stroke-width=\"2\">\
         <title>the replayed policy</title></circle>\n</svg>\n"
    );
    out
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_nothing_and_hostile_names_are_still_pictures() {
        let picture = svg("<script>\"&", &Suggestions::default(), &Verdict::default());
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
        assert!(picture.contains("&lt;script&gt;&quot;&amp;"));
        assert!(!picture.contains("NaN"));
    }
}
