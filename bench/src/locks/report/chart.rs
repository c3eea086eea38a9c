//! The chart of the hand-overs per second over the number of contenders. Both axes are logarithmic, and each implementation
//! has a labelled curve. The chart has a background of its own, so it can be read on a white and on a dark page.

mod scale;

use std::io;

use bench::Error;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use stats::figures::{count, figure};

use self::scale::{Axis, Tick, pixel, spread};
use crate::implementation::Implementation;
use crate::results::ClosedLoopRow;

const SIZE: (i32, i32) = (1000, 640);
/// The area of the curves; labels stand to the right of it.
const LEFT: i32 = 104;
const RIGHT: i32 = 722;
const TOP: i32 = 96;
const BOTTOM: i32 = 560;
/// Left end of the labels, and right end of their figures.
const LABELS: (i32, i32) = (RIGHT + 34, SIZE.0 - 18);
/// Least distance of two labels.
const LABEL_GAP: f64 = 21.0;
/// Least distance of two numbers of contenders.
const CONTENDERS_GAP: i32 = 44;

const BACKGROUND: RGBColor = RGBColor(0xfc, 0xfc, 0xfd);
const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
const PALE_INK: RGBColor = RGBColor(0x59, 0x63, 0x6e);
const GRID: RGBColor = RGBColor(0xd8, 0xdd, 0xe3);
const PALE_GRID: RGBColor = RGBColor(0xee, 0xf0, 0xf3);
const EDGE: RGBColor = RGBColor(0xd0, 0xd7, 0xde);
/// The colours of our recipes, in the order of the report.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0xbc, 0x4c, 0x00),
    RGBColor(0x09, 0x69, 0xda),
    RGBColor(0x1a, 0x7f, 0x37),
    RGBColor(0xbf, 0x39, 0x89),
    RGBColor(0x82, 0x50, 0xdf),
    RGBColor(0xcf, 0x22, 0x2e),
    RGBColor(0x9a, 0x67, 0x00),
    RGBColor(0x0a, 0x7e, 0x8c),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// The look of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    colour: RGBColor,
    /// Length of the dashes, and of the gaps between; none for a solid curve.
    dashes: Option<(i32, i32)>,
}

/// One implementation's curve.
#[derive(Clone, Debug, PartialEq)]
struct Curve {
    name: &'static str,
    look: Look,
    /// Contenders and hand-overs per second, in ascending order of the contenders. Absent where nothing was measured.
    points: Vec<(u32, Option<f64>)>,
}

impl Curve {
    /// Returns the last point that was measured.
    fn end(&self) -> Option<(u32, f64)> {
        self.points.iter().rev().find_map(|(contenders, ops)| Some((*contenders, (*ops)?)))
    }
}

/// The positions of figures in the picture.
#[derive(Clone, Debug, PartialEq)]
struct Scale {
    /// Numbers of contenders, in ascending order.
    contenders: Vec<u32>,
    x: Axis,
    y: Axis,
    ticks: Vec<Tick>,
}

/// Draws the picture as SVG.
pub(crate) fn render(rows: &[ClosedLoopRow]) -> Result<String, Error> {
    let mut svg = String::new();
    draw(&mut svg, &curves(rows)).map_err(Error::refused("draw bench-peers.svg"))?;
    Ok(svg)
}

fn curves(rows: &[ClosedLoopRow]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows {
        let point = (row.contenders, row.cycles_per_s);
        match curves.iter_mut().find(|curve| curve.name == row.implementation) {
            Some(curve) => curve.points.push(point),
            None => {
                curves.push(Curve { name: row.implementation, look: look(row.implementation), points: vec![point] });
            }
        }
    }
    curves
}

/// Returns the look of an implementation, whatever else was measured: solid for ours, dashed and grey for rivals.
fn look(name: &str) -> Look {
    let all = Implementation::all();
    let mut ours = all.iter().filter(|implementation| matches!(implementation, Implementation::Ours(_)));
    match (ours.position(|implementation| implementation.name() == name), name) {
        (Some(position), _) => Look { colour: COLOURS[position % COLOURS.len()], dashes: None },
        (None, "curator") => Look { colour: INK, dashes: Some((9, 4)) },
        (None, "raw-write") => Look { colour: RGBColor(0x77, 0x80, 0x8a), dashes: Some((7, 2)) },
        (None, "raw") => Look { colour: RGBColor(0x77, 0x80, 0x8a), dashes: Some((2, 4)) },
        (None, "kazoo") => Look { colour: RGBColor(0x57, 0x60, 0x6a), dashes: Some((5, 4)) },
        (None, _) => Look { colour: PALE_INK, dashes: Some((14, 4)) },
    }
}

impl Scale {
    fn of(curves: &[Curve]) -> Self {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let mut contenders: Vec<u32> = points().map(|(contenders, _)| *contenders).collect();
        contenders.sort_unstable();
        contenders.dedup();
        let x = Axis::of(contenders.iter().copied().map(f64::from), (LEFT, RIGHT));
        let mut y = Axis::of(points().filter_map(|(_, ops)| *ops), (BOTTOM, TOP));
        let ticks = y.extend_to_ticks();
        Self { contenders, x, y, ticks }
    }

    fn position(&self, contenders: u32, cycles_per_s: f64) -> (i32, i32) {
        (self.x.at(f64::from(contenders)), self.y.at(cycles_per_s))
    }
}

fn draw(svg: &mut String, curves: &[Curve]) -> Drawn {
    let size = (SIZE.0.unsigned_abs(), SIZE.1.unsigned_abs());
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.draw(&Rectangle::new([(0, 0), (SIZE.0 - 1, SIZE.1 - 1)], BACKGROUND.filled()))?;
    area.draw(&Rectangle::new([(0, 0), (SIZE.0 - 1, SIZE.1 - 1)], EDGE.stroke_width(1)))?;
    let scale = Scale::of(curves);
    draw_title(&area)?;
    draw_contenders(&area, &scale)?;
    draw_handovers(&area, &scale)?;
    for curve in curves {
        draw_curve(&area, &scale, curve)?;
    }
    draw_labels(&area, &scale, curves)?;
    area.present()?;
    Ok(())
}

fn write(
    area: &Area<'_>,
    text: impl Into<String>,
    at: (i32, i32),
    (size, colour): (i32, RGBColor),
    (horizontal, vertical): (HPos, VPos),
) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&colour).pos(Pos::new(horizontal, vertical));
    area.draw(&Text::new(text.into(), at, style))?;
    Ok(())
}

fn draw_title(area: &Area<'_>) -> Drawn {
    write(area, "Hand-overs of one lock per second", (LEFT, 20), (22, INK), (HPos::Left, VPos::Top))?;
    let subtitle =
        "everybody acquires and releases without a pause; solid: this library; raw: two requests, no exclusion";
    write(area, subtitle, (LEFT, 50), (14, PALE_INK), (HPos::Left, VPos::Top))
}

fn draw_contenders(area: &Area<'_>, scale: &Scale) -> Drawn {
    let mut labelled = i32::MIN;
    for &contenders in &scale.contenders {
        let x = scale.x.at(f64::from(contenders));
        area.draw(&PathElement::new([(x, TOP), (x, BOTTOM)], GRID.stroke_width(1)))?;
        if x.saturating_sub(labelled) >= CONTENDERS_GAP {
            let label = count(contenders.into());
            write(area, label, (x, BOTTOM + 10), (14, PALE_INK), (HPos::Center, VPos::Top))?;
            labelled = x;
        }
    }
    let middle = i32::midpoint(LEFT, RIGHT);
    let name = "contenders for the lock (logarithmic)";
    write(area, name, (middle, BOTTOM + 38), (14, PALE_INK), (HPos::Center, VPos::Top))
}

fn draw_handovers(area: &Area<'_>, scale: &Scale) -> Drawn {
    for Tick { value, is_decade } in scale.ticks.iter().copied() {
        let y = scale.y.at(value);
        let colour = if is_decade { GRID } else { PALE_GRID };
        area.draw(&PathElement::new([(LEFT, y), (RIGHT, y)], colour.stroke_width(1)))?;
        if is_decade || scale.y.has_room_for_steps() {
            write(area, tick_label(value), (LEFT - 10, y), (14, PALE_INK), (HPos::Right, VPos::Center))?;
        }
    }
    let style = ("sans-serif", 14).into_font().transform(FontTransform::Rotate270).color(&PALE_INK);
    let style = style.pos(Pos::new(HPos::Center, VPos::Top));
    area.draw(&Text::new("hand-overs per second (logarithmic)", (16, i32::midpoint(TOP, BOTTOM)), style))?;
    Ok(())
}

/// Returns the label of a tick, which is a round number.
fn tick_label(value: f64) -> String {
    let label = figure(value);
    if label.contains('.') { label.trim_end_matches('0').trim_end_matches('.').to_owned() } else { label }
}

fn draw_curve(area: &Area<'_>, scale: &Scale, curve: &Curve) -> Drawn {
    let Look { colour, dashes } = curve.look;
    let width = if dashes.is_some() { 2 } else { 3 };
    // Where a figure is missing, the curve is interrupted.
    for piece in curve.points.split(|(_, ops)| ops.is_none()) {
        let points: Vec<(i32, i32)> =
            piece.iter().filter_map(|(contenders, ops)| Some(scale.position(*contenders, (*ops)?))).collect();
        match dashes {
            Some((dash, gap)) => {
                area.draw(&DashedPathElement::new(points.clone(), dash, gap, colour.stroke_width(width)))?
            }
            None => area.draw(&PathElement::new(points.clone(), colour.stroke_width(width)))?,
        }
        for point in points {
            area.draw(&Circle::new(point, 4, BACKGROUND.filled()))?;
            area.draw(&Circle::new(point, 4, colour.stroke_width(2)))?;
        }
    }
    Ok(())
}

/// Draws the name of each curve and its last figure, tied to the end of the curve.
fn draw_labels(area: &Area<'_>, scale: &Scale, curves: &[Curve]) -> Drawn {
    let Some(&most) = scale.contenders.last() else { return Ok(()) };
    let noun = if most == 1 { "contender" } else { "contenders" };
    let heading = format!("per second, {} {noun}", count(most.into()));
    write(area, heading, (LABELS.1, TOP - 28), (13, PALE_INK), (HPos::Right, VPos::Center))?;
    let ends: Vec<(&Curve, u32, f64)> =
        curves.iter().filter_map(|curve| curve.end().map(|(n, ops)| (curve, n, ops))).collect();
    let wanted: Vec<f64> = ends.iter().map(|(_, _, ops)| f64::from(scale.y.at(*ops))).collect();
    let positions = spread(&wanted, LABEL_GAP, (f64::from(TOP - 6), f64::from(BOTTOM + 10)));
    for ((curve, contenders, ops), position) in ends.into_iter().zip(positions) {
        let position = pixel(position);
        let (x, y) = scale.position(contenders, ops);
        let tie = [(x + 6, y), (LABELS.0 - 16, position), (LABELS.0 - 6, position)];
        area.draw(&PathElement::new(tie, curve.look.colour.mix(0.45).stroke_width(1)))?;
        write(area, curve.name, (LABELS.0, position), (15, curve.look.colour), (HPos::Left, VPos::Center))?;
        let at = if contenders == most { String::new() } else { format!(" at {}", count(contenders.into())) };
        let text = figure(ops) + &at;
        write(area, text, (LABELS.1, position), (15, curve.look.colour), (HPos::Right, VPos::Center))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    const MANY: &[(u64, u64)] = &[(1000, 1)];

    #[test]
    fn every_curve_has_a_name_and_its_last_figure() {
        let rows = results(&[("curator", 1, MANY), ("mutex", 1, MANY), ("mutex", 30, &[(2345, 1)])]).rows();
        let svg = render(&rows).unwrap();
        for text in ["curator", "mutex", "2340", "contenders"] {
            assert!(svg.contains(text), "{text} is not in the picture");
        }
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn a_curve_is_interrupted_where_nothing_was_measured() {
        let rows = results(&[("mutex", 1, MANY), ("mutex", 30, &[]), ("mutex", 300, MANY)]).rows();
        assert_eq!(curves(&rows)[0].points, [(1, Some(1000.0)), (30, None), (300, Some(1000.0))]);
    }

    #[test]
    fn nothing_measured_is_still_a_picture() {
        assert!(render(&[]).is_ok());
        assert!(render(&results(&[("mutex", 1, &[])]).rows()).is_ok());
    }

    #[test]
    fn a_curve_that_ends_early_says_where() {
        let rows =
            results(&[("curator", 1, MANY), ("curator", 30, MANY), ("naive", 1, &[(77, 1)]), ("naive", 30, &[])])
                .rows();
        let svg = render(&rows).unwrap();
        assert!(svg.contains("per second, 30 contenders") && svg.contains("77.0 at 1"), "{svg}");
    }

    #[test]
    fn numbers_of_contenders_that_are_close_do_not_overlap() {
        let rows = results(&[("mutex", 1000, MANY), ("mutex", 1001, MANY), ("mutex", 2000, MANY)]).rows();
        let svg = render(&rows).unwrap();
        let has_label = |label: &str| svg.lines().any(|line| line == label);
        assert!(has_label("1000") && !has_label("1001") && has_label("2000"), "{svg}");
    }

    #[test]
    fn a_tick_has_no_zeros_at_the_end() {
        let labels = ["0.05", "0.5", "1", "20", "500", "1000", "20\u{202f}000"];
        assert_eq!([0.05, 0.5, 1.0, 20.0, 500.0, 1_000.0, 20_000.0].map(tick_label), labels);
    }

    #[test]
    fn looks_differ() {
        let all = Implementation::all();
        for (i, one) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| look(one.name()) != look(other.name())), "{one:?}");
        }
    }
}
