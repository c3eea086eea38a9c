//! A reservation: units that a buyer holds until it pays, or until they are free again.

use std::fmt;

/// A reservation as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its number.
    pub reservation_id: i64,
    /// The SKU.
    pub goods_no: i64,
    /// The sale that the units are from.
    pub sale: i64,
    /// How many units.
    pub quantity: i64,
    /// Whether it still holds them, or how it has ended.
    pub state: ReservationState,
    /// When its time is over, by the clock of the database: RFC 3339, in UTC.
    pub expires_at: String,
    /// Its order, if it is confirmed.
    pub order_id: Option<i64>,
}

/// The states of a reservation. Every one but the first is an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationState {
    /// It holds its units.
    Held,
    /// Its units are sold.
    Confirmed,
    /// The buyer gave its units back.
    Cancelled,
    /// Its time passed, or its sale ended.
    Expired,
}

impl ReservationState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Held, Self::Confirmed, Self::Cancelled, Self::Expired];

    /// Returns the word for it, in the database and in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Confirmed => "confirmed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Returns the state for a word of the database. Returns `None` for any other word, which a constraint of the table forbids.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

impl fmt::Display for ReservationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
