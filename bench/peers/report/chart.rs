//! Hand-offs a second over the number of contenders, as a picture: both axes logarithmic, a labelled line for each
//! implementation. It brings its own background, and so is read on white and on dark alike.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::Error;
use crate::implementation::Implementation;
use crate::report::markdown::thousands;
use crate::results::Row;

const SIZE: (i32, i32) = (960, 560);
/// The area of the lines; labels stand to the right of it.
const LEFT: i32 = 84;
const RIGHT: i32 = 710;
const TOP: i32 = 84;
const BOTTOM: i32 = 488;
/// Where labels begin.
const LABELS: i32 = RIGHT + 34;
/// Labels are at least so far apart.
const LABEL_GAP: f64 = 21.0;

const BACKGROUND: RGBColor = RGBColor(0xfc, 0xfc, 0xfd);
const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
const PALE_INK: RGBColor = RGBColor(0x59, 0x63, 0x6e);
const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);
const EDGE: RGBColor = RGBColor(0xd0, 0xd7, 0xde);
/// For ours, one after the other.
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

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    colour: RGBColor,
    /// Length of the dashes, and of the gaps between; none for a solid line.
    dashes: Option<(i32, i32)>,
}

/// One implementation's line.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    name: &'static str,
    look: Look,
    /// Contenders and hand-offs a second, in ascending order of the former; absent where nothing was measured.
    points: Vec<(u32, Option<f64>)>,
}

/// Where figures are in the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    contenders: (f64, f64),
    ops_per_s: (f64, f64),
}

/// The picture as SVG.
///
/// # Errors
///
/// [`Error::Report`] when the drawing library refuses.
pub(crate) fn render(rows: &[Row]) -> Result<String, Error> {
    let mut svg = String::new();
    let lines = lines(rows);
    draw(&mut svg, &lines).map_err(|error| Error::Report { what: "bench-peers.svg", reason: error.to_string() })?;
    Ok(svg)
}

fn lines(rows: &[Row]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let point = (row.contenders, row.ops_per_s);
        match lines.iter_mut().find(|line| line.name == row.implementation) {
            Some(line) => line.points.push(point),
            None => {
                lines.push(Line { name: row.implementation, look: look(row.implementation), points: vec![point] });
            }
        }
    }
    lines
}

/// Ours are solid and in colour, those of others dashed in greys. It does not depend on what else was measured.
fn look(name: &str) -> Look {
    let all = Implementation::all();
    let mut ours = all.iter().filter(|implementation| matches!(implementation, Implementation::Ours(_)));
    match (ours.position(|implementation| implementation.name() == name), name) {
        (Some(place), _) => Look { colour: COLOURS[place % COLOURS.len()], dashes: None },
        (None, "curator") => Look { colour: INK, dashes: Some((9, 4)) },
        (None, "raw") => Look { colour: RGBColor(0x77, 0x80, 0x8a), dashes: Some((2, 4)) },
        (None, "kazoo") => Look { colour: RGBColor(0x57, 0x60, 0x6a), dashes: Some((5, 4)) },
        (None, _) => Look { colour: PALE_INK, dashes: Some((14, 4)) },
    }
}

impl Scale {
    /// From the least to the largest figure, the hand-offs in whole powers of ten.
    fn of(lines: &[Line]) -> Self {
        let points = || lines.iter().flat_map(|line| &line.points);
        let contenders: Vec<f64> = points().map(|(contenders, _)| f64::from(*contenders).log10()).collect();
        let ops: Vec<f64> = points().filter_map(|(_, ops)| *ops).filter(|ops| *ops > 0.0).map(f64::log10).collect();
        let ends = |values: &[f64]| {
            let least = values.iter().copied().reduce(f64::min).unwrap_or(0.0);
            (least, values.iter().copied().reduce(f64::max).unwrap_or(least))
        };
        let (least, most) = ends(&ops);
        let (floor, ceiling) = (least.floor(), most.ceil());
        Self { contenders: ends(&contenders), ops_per_s: (floor, ceiling.max(floor + 1.0)) }
    }

    fn x(&self, contenders: u32) -> i32 {
        between(f64::from(contenders).log10(), self.contenders, (LEFT, RIGHT))
    }

    fn y(&self, ops_per_s: f64) -> i32 {
        between(ops_per_s.log10(), self.ops_per_s, (BOTTOM, TOP))
    }

    /// The powers of ten on the axis of the hand-offs.
    fn decades(&self) -> impl Iterator<Item = f64> {
        let (first, last) = self.ops_per_s;
        std::iter::successors(Some(first), |decade| Some(decade + 1.0)).take_while(move |decade| *decade <= last)
    }
}

/// The pixel at the same place between `pixels` as the value is between the ends of `range`; in the middle of them where the
/// range is one value only.
fn between(value: f64, range: (f64, f64), pixels: (i32, i32)) -> i32 {
    let (from, to) = (f64::from(pixels.0), f64::from(pixels.1));
    let share = if range.1 > range.0 { (value - range.0) / (range.1 - range.0) } else { 0.5 };
    pixel(from + (to - from) * share)
}

/// Whole pixels; the picture has far fewer than an `i32` holds.
#[allow(clippy::cast_possible_truncation)]
fn pixel(value: f64) -> i32 {
    value.round() as i32
}

/// Moves places apart until neighbours have at least the gap, keeping their order and their middle, and all of them within
/// the limits if there is room. They come back in the order in which they were given.
fn spread(places: &[f64], gap: f64, limits: (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|one, other| places[*one].total_cmp(&places[*other]));
    // Places that were pushed together stand evenly around the mean of where they should be.
    let mut blocks: Vec<(Vec<usize>, f64)> = Vec::new();
    let half = |members: usize| gap * count(members.saturating_sub(1)) / 2.0;
    for place in order {
        let mut block = (vec![place], places[place].clamp(limits.0, limits.1.max(limits.0)));
        while let Some(above) =
            blocks.pop_if(|above| above.1 + half(above.0.len()) + gap > block.1 - half(block.0.len()))
        {
            let weight = (count(above.0.len()), count(block.0.len()));
            let middle = (above.1 * weight.0 + block.1 * weight.1) / (weight.0 + weight.1);
            let members = [above.0, block.0].concat();
            let room = half(members.len());
            block = (members, middle.min(limits.1 - room).max(limits.0 + room));
        }
        blocks.push(block);
    }
    let mut moved = places.to_vec();
    for (members, middle) in blocks {
        for (i, member) in members.iter().enumerate() {
            moved[*member] = middle - half(members.len()) + gap * count(i);
        }
    }
    moved
}

/// A handful of labels.
fn count(labels: usize) -> f64 {
    f64::from(u32::try_from(labels).unwrap_or(u32::MAX))
}

fn draw(svg: &mut String, lines: &[Line]) -> Result<(), Box<dyn std::error::Error>> {
    let (width, height) = (SIZE.0.unsigned_abs(), SIZE.1.unsigned_abs());
    let area = SVGBackend::with_string(svg, (width, height)).into_drawing_area();
    area.draw(&Rectangle::new([(0, 0), (SIZE.0 - 1, SIZE.1 - 1)], BACKGROUND.filled()))?;
    area.draw(&Rectangle::new([(0, 0), (SIZE.0 - 1, SIZE.1 - 1)], EDGE.stroke_width(1)))?;
    let scale = Scale::of(lines);
    draw_frame(&area, scale, lines)?;
    for line in lines {
        draw_line(&area, scale, line)?;
    }
    draw_labels(&area, scale, lines)?;
    area.present()?;
    Ok(())
}

fn write(
    area: &Area<'_>,
    text: impl Into<String>,
    at: (i32, i32),
    (size, colour): (i32, RGBColor),
    (horizontal, vertical): (HPos, VPos),
) -> Result<(), Box<dyn std::error::Error>> {
    let style = ("sans-serif", size).into_font().color(&colour).pos(Pos::new(horizontal, vertical));
    area.draw(&Text::new(text.into(), at, style))?;
    Ok(())
}

fn draw_frame(area: &Area<'_>, scale: Scale, lines: &[Line]) -> Result<(), Box<dyn std::error::Error>> {
    write(area, "Hand-offs of one lock per second", (LEFT, 22), (22, INK), (HPos::Left, VPos::Top))?;
    let subtitle =
        "everybody acquires and releases without a pause; solid: this library; raw excludes nobody: the limit";
    write(area, subtitle, (LEFT, 50), (14, PALE_INK), (HPos::Left, VPos::Top))?;
    for decade in scale.decades() {
        let y = between(decade, scale.ops_per_s, (BOTTOM, TOP));
        area.draw(&PathElement::new([(LEFT, y), (RIGHT, y)], GRID.stroke_width(1)))?;
        let label = if decade < 0.0 {
            format!("{}", 10_f64.powf(decade))
        } else {
            thousands(&format!("{:.0}", 10_f64.powf(decade)))
        };
        write(area, label, (LEFT - 10, y), (14, PALE_INK), (HPos::Right, VPos::Center))?;
    }
    let mut contenders: Vec<u32> =
        lines.iter().flat_map(|line| &line.points).map(|(contenders, _)| *contenders).collect();
    contenders.sort_unstable();
    contenders.dedup();
    for contenders in contenders {
        let x = scale.x(contenders);
        area.draw(&PathElement::new([(x, TOP), (x, BOTTOM)], GRID.stroke_width(1)))?;
        let label = thousands(&contenders.to_string());
        write(area, label, (x, BOTTOM + 10), (14, PALE_INK), (HPos::Center, VPos::Top))?;
    }
    let middle = i32::midpoint(LEFT, RIGHT);
    write(area, "contenders", (middle, BOTTOM + 36), (14, PALE_INK), (HPos::Center, VPos::Top))
}

fn draw_line(area: &Area<'_>, scale: Scale, line: &Line) -> Result<(), Box<dyn std::error::Error>> {
    let Look { colour, dashes } = line.look;
    let width = if dashes.is_some() { 2 } else { 3 };
    // Where a figure is missing, the line is interrupted.
    for piece in line.points.split(|(_, ops)| ops.is_none()) {
        let points: Vec<(i32, i32)> =
            piece.iter().filter_map(|(contenders, ops)| Some((scale.x(*contenders), scale.y((*ops)?)))).collect();
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

/// The name of each line and its last figure, tied to the end of the line.
fn draw_labels(area: &Area<'_>, scale: Scale, lines: &[Line]) -> Result<(), Box<dyn std::error::Error>> {
    let ends: Vec<(&Line, (i32, i32), f64)> = lines
        .iter()
        .filter_map(|line| {
            let (contenders, ops) =
                line.points.iter().rev().find_map(|(contenders, ops)| Some((*contenders, (*ops)?)))?;
            Some((line, (scale.x(contenders), scale.y(ops)), ops))
        })
        .collect();
    let wanted: Vec<f64> = ends.iter().map(|(_, (_, y), _)| f64::from(*y)).collect();
    let places = spread(&wanted, LABEL_GAP, (f64::from(TOP - 10), f64::from(BOTTOM + 10)));
    for ((line, (x, y), ops), place) in ends.into_iter().zip(places) {
        let place = pixel(place);
        let tie = [(x + 6, y), (LABELS - 16, place), (LABELS - 6, place)];
        area.draw(&PathElement::new(tie, line.look.colour.mix(0.45).stroke_width(1)))?;
        write(area, line.name, (LABELS, place), (15, line.look.colour), (HPos::Left, VPos::Center))?;
        let figure = if ops < 10.0 { format!("{ops:.1}") } else { thousands(&format!("{ops:.0}")) };
        write(area, figure, (SIZE.0 - 18, place), (15, line.look.colour), (HPos::Right, VPos::Center))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::results::tests::results;

    const MANY: &[(u64, u64)] = &[(1000, 1)];

    #[test]
    fn every_implementation_has_a_line_with_its_name_and_last_figure() {
        let rows = results(&[("curator", 1, MANY), ("mutex", 1, MANY), ("mutex", 30, &[(2345, 1)])]).rows();
        let svg = render(&rows).unwrap();
        for text in ["curator", "mutex", "2 345", "contenders"] {
            assert!(svg.contains(text), "{text} is not in the picture");
        }
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn a_line_is_interrupted_where_nothing_was_measured() {
        let rows = results(&[("mutex", 1, MANY), ("mutex", 30, &[]), ("mutex", 300, MANY)]).rows();
        assert_eq!(lines(&rows)[0].points, [(1, Some(1000.0)), (30, None), (300, Some(1000.0))]);
    }

    #[test]
    fn nothing_measured_is_still_a_picture() {
        assert!(render(&[]).is_ok());
        assert!(render(&results(&[("mutex", 1, &[])]).rows()).is_ok());
    }

    #[test]
    fn the_axis_runs_over_whole_powers_of_ten() {
        let scale = Scale::of(&lines(&results(&[("mutex", 1, &[(350, 1)]), ("curator", 30, &[(4000, 1)])]).rows()));
        assert_eq!(scale.decades().collect::<Vec<_>>(), [2.0, 3.0, 4.0]);
        assert_eq!((scale.x(1), scale.x(30)), (LEFT, RIGHT));
        assert_eq!((scale.y(100.0), scale.y(10_000.0)), (BOTTOM, TOP));
    }

    #[test]
    fn looks_differ() {
        let all = Implementation::all();
        for (i, one) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| look(one.name()) != look(other.name())), "{one:?}");
        }
    }

    proptest! {
        #[test]
        fn labels_never_overlap_and_keep_their_order(places in prop::collection::vec(0.0_f64..400.0, 0..15)) {
            let moved = spread(&places, 20.0, (0.0, 400.0));
            for (i, one) in places.iter().enumerate() {
                prop_assert!((-1e-6..=400.0 + 1e-6).contains(&moved[i]));
                for (j, other) in places.iter().enumerate().skip(i + 1) {
                    prop_assert!((moved[i] - moved[j]).abs() >= 20.0 - 1e-6);
                    prop_assert!(one >= other || moved[i] < moved[j]);
                }
            }
        }
    }
}
