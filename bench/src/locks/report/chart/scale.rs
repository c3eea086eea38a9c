//! Positions in the picture, in pixels. Both axes are logarithmic.

/// The ends of an axis in pixels, or of what it shows.
pub(super) type Ends<T> = (T, T);

/// Least distance of two labelled lines of the grid, in pixels.
const TICK_GAP: f64 = 17.0;

/// A line of the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    /// Whether it is a power of ten.
    pub(super) is_decade: bool,
}

/// An axis from the least to the largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    values: Ends<f64>,
    pixels: Ends<i32>,
}

impl Axis {
    /// Makes an axis that shows just these values.
    pub(super) fn of(values: impl Iterator<Item = f64>, pixels: Ends<i32>) -> Self {
        let ends = values.filter(|value| *value > 0.0).fold(None, |ends, value| match ends {
            None => Some((value, value)),
            Some((least, most)) => Some((value.min(least), value.max(most))),
        });
        Self { values: ends.unwrap_or((1.0, 1.0)), pixels }
    }

    /// Returns the pixel of a value. If the axis has one value only, this is the middle.
    pub(super) fn at(&self, value: f64) -> i32 {
        let [least, most] = [self.values.0, self.values.1].map(f64::log10);
        let [from, to] = [self.pixels.0, self.pixels.1].map(f64::from);
        let share = if most > least { (value.log10() - least) / (most - least) } else { 0.5 };
        pixel(from + (to - from) * share)
    }

    /// Rounds the range outward to 1-2-5 steps and returns the visible grid lines.
    pub(super) fn extend_to_ticks(&mut self) -> Vec<Tick> {
        let (least, most) = self.values;
        let decades = std::iter::successors(Some(least.log10().floor()), |decade| Some(decade + 1.0));
        let ticks: Vec<Tick> = decades
            .take_while(|decade| *decade <= most.log10().ceil())
            .flat_map(|decade| [1.0, 2.0, 5.0].map(|step| (step, step * 10_f64.powf(decade))))
            .map(|(step, value)| Tick { value, is_decade: step < 2.0 })
            .collect();
        let below = ticks.iter().rposition(|tick| tick.value <= least * ROUNDING).unwrap_or(0);
        let above = ticks.iter().position(|tick| tick.value * ROUNDING >= most).unwrap_or(ticks.len() - 1);
        let shown = ticks[below..=above.max(below + 1).min(ticks.len() - 1)].to_vec();
        self.values = (shown[0].value, shown[shown.len() - 1].value);
        shown
    }

    /// Returns whether labels at 1-2-5 steps have room, and not only labels at powers of ten.
    pub(super) fn has_room_for_steps(&self) -> bool {
        f64::from((self.at(2.0) - self.at(1.0)).abs()) >= TICK_GAP
    }
}

/// A power of ten may come out a little above or below itself.
const ROUNDING: f64 = 1.0 + 1e-9;

/// Rounds to whole pixels. The picture has far fewer than an `i32` can count.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn pixel(value: f64) -> i32 {
    value.round() as i32
}

/// Moves positions apart until neighbours have at least the gap. Keeps their order and their middle, and keeps all of
/// them within the limits if there is room. Returns them in the given order.
pub(super) fn spread(positions: &[f64], gap: f64, limits: Ends<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by(|one, other| positions[*one].total_cmp(&positions[*other]));
    // Places that were pushed together stand evenly around the mean of where they should be.
    let mut blocks: Vec<(Vec<usize>, f64)> = Vec::new();
    let half = |members: usize| gap * count(members.saturating_sub(1)) / 2.0;
    for position in order {
        let mut block = (vec![position], positions[position].clamp(limits.0, limits.1.max(limits.0)));
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
    let mut moved = positions.to_vec();
    for (members, middle) in blocks {
        for (i, member) in members.iter().enumerate() {
            moved[*member] = middle - half(members.len()) + gap * count(i);
        }
    }
    moved
}

/// Converts a small number of labels.
fn count(labels: usize) -> f64 {
    f64::from(u32::try_from(labels).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticks_of(values: &[f64]) -> Vec<f64> {
        let mut axis = Axis::of(values.iter().copied(), (500, 100));
        axis.extend_to_ticks().into_iter().map(|tick| tick.value).collect()
    }

    #[test]
    fn an_axis_ends_at_the_next_round_figures() {
        assert_eq!(ticks_of(&[350.0, 4000.0]), [200.0, 500.0, 1000.0, 2000.0, 5000.0]);
        assert_eq!(ticks_of(&[100.0, 1000.0]), [100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(ticks_of(&[0.7, 1.5]), [0.5, 1.0, 2.0]);
        assert_eq!(ticks_of(&[50.0]), [50.0, 100.0]);
        assert_eq!(ticks_of(&[999.0]), [500.0, 1000.0]);
        assert_eq!(ticks_of(&[]), [1.0, 2.0]);
    }

    #[test]
    fn the_ends_of_an_axis_are_the_ends_of_its_pixels() {
        let mut axis = Axis::of([350.0, 4000.0].into_iter(), (500, 100));
        assert_eq!((axis.at(350.0), axis.at(4000.0)), (500, 100));
        axis.extend_to_ticks();
        assert_eq!((axis.at(200.0), axis.at(1000.0), axis.at(5000.0)), (500, 300, 100));
        assert_eq!(Axis::of([30.0].into_iter(), (100, 700)).at(30.0), 400);
    }

    #[test]
    fn steps_are_labelled_where_there_is_room() {
        let axis = |most| Axis::of([1.0, most].into_iter(), (500, 100));
        assert!(axis(1e6).has_room_for_steps());
        assert!(!axis(1e9).has_room_for_steps());
    }

    proptest! {
        #[test]
        fn whatever_is_measured_lies_within_the_axis(values in prop::collection::vec(1e-3_f64..1e7, 1..20)) {
            let mut axis = Axis::of(values.iter().copied(), (500, 100));
            let ticks = axis.extend_to_ticks();
            prop_assert!(ticks.len() >= 2);
            for value in values {
                prop_assert!((100..=500).contains(&axis.at(value)), "{value} is outside of {ticks:?}");
            }
        }

        #[test]
        fn labels_never_overlap_and_keep_their_order(positions in prop::collection::vec(0.0_f64..400.0, 0..15)) {
            let moved = spread(&positions, 20.0, (0.0, 400.0));
            for (i, one) in positions.iter().enumerate() {
                prop_assert!((-1e-6..=400.0 + 1e-6).contains(&moved[i]));
                for (j, other) in positions.iter().enumerate().skip(i + 1) {
                    prop_assert!((moved[i] - moved[j]).abs() >= 20.0 - 1e-6);
                    prop_assert!(one >= other || moved[i] < moved[j]);
                }
            }
        }
    }
}
