//! What a buyer asks for: a cart, and the key of the request.

use std::fmt;
use std::str::FromStr;

use super::goods::{GoodsNo, Quantity};

/// One SKU of a cart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The SKU.
    pub goods_no: GoodsNo,
    /// How many units of it.
    pub quantity: Quantity,
}

/// What is bought together, all or nothing: lines of different SKUs, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cart {
    lines: Box<[Line]>,
}

/// The order in which the locks of a cart are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LockSequence {
    /// By SKU number, so that no two carts can wait for each other.
    Canonical,
    /// As the buyer gave them: carts that cross wait for each other until the deadline for the lock.
    Given,
}

impl Cart {
    /// Upper bound of the lines of a cart. Each line may need a lock, for which other buyers wait meanwhile.
    pub const LINES_MAX: usize = 20;

    /// Makes a cart of one SKU.
    pub fn of_one(goods_no: GoodsNo, quantity: Quantity) -> Self {
        Self { lines: Box::new([Line { goods_no, quantity }]) }
    }

    /// Makes a cart of these lines.
    ///
    /// # Errors
    /// An [`InvalidCart`] if there is no line, if there are too many lines, or if two lines have the same SKU.
    pub fn new(lines: Vec<Line>) -> Result<Self, InvalidCart> {
        if !(1..=Self::LINES_MAX).contains(&lines.len()) {
            return Err(InvalidCart::Lines(lines.len()));
        }
        let cart = Self { lines: lines.into() };
        let sorted = cart.in_order(LockSequence::Canonical);
        match sorted.windows(2).find(|pair| pair[0].goods_no == pair[1].goods_no) {
            Some(pair) => Err(InvalidCart::Repeated(pair[0].goods_no)),
            None => Ok(cart),
        }
    }

    /// Returns the lines, as they were given.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns the SKUs, as they were given.
    pub fn numbers(&self) -> Vec<i64> {
        self.lines.iter().map(|line| line.goods_no.get()).collect()
    }

    /// Returns the lines in this order.
    pub fn in_order(&self, order: LockSequence) -> Vec<Line> {
        let mut lines = self.lines.to_vec();
        if order == LockSequence::Canonical {
            lines.sort_unstable_by_key(|line| line.goods_no);
        }
        lines
    }

    /// Returns the SKUs, in that order.
    pub fn goods_in_order(&self, order: LockSequence) -> Vec<GoodsNo> {
        self.in_order(order).into_iter().map(|line| line.goods_no).collect()
    }
}

/// A cart that cannot be bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCart {
    /// No line, or too many.
    #[error("a cart has 1 to {max} lines, not {0}", max = Cart::LINES_MAX)]
    Lines(usize),
    /// Two lines of one SKU.
    #[error("SKU {0} is in the cart more than once; add the quantities up")]
    Repeated(GoodsNo),
}

/// The client's name for a purchase. A request that is repeated with the same key buys nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The longest key, in bytes.
    pub const BYTES_MAX: usize = 255;

    /// The regular expression of a header with a key: the key, with or without quotes.
    pub const PATTERN: &str = r#"^("[!#-~]{1,255}"|[!#-~]{1,255})$"#;

    /// Returns the key as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = InvalidKey;

    /// Accepts visible ASCII characters except quotes, because in a header quotes may enclose a key.
    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        if visible && (1..=Self::BYTES_MAX).contains(&text.len()) { Ok(Self(text.to_owned())) } else { Err(InvalidKey) }
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an idempotency key has 1 to {max} visible ASCII characters, without spaces and quotes; a random UUID is a good one",
    max = IdempotencyKey::BYTES_MAX
)]
pub struct InvalidKey;

/// The buyer, as the client names it. The service has no accounts: in a real shop this would be the user of the session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuyerId(String);

impl BuyerId {
    /// The longest name of a buyer, in bytes.
    pub const BYTES_MAX: usize = 64;

    /// The regular expression of a name.
    pub const PATTERN: &str = "^[!-~]{1,64}$";

    /// Returns the name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BuyerId {
    type Err = InvalidBuyer;

    /// Accepts visible ASCII characters, which a header can have.
    fn from_str(text: &str) -> Result<Self, InvalidBuyer> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if visible && (1..=Self::BYTES_MAX).contains(&text.len()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidBuyer)
        }
    }
}

/// The text is no name of a buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a buyer has a name of 1 to {max} visible ASCII characters, without spaces", max = BuyerId::BYTES_MAX)]
pub struct InvalidBuyer;

/// One purchase, as the client asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purchase {
    /// What is to be bought.
    pub cart: Cart,
    /// The idempotency key of the request, if it has one.
    pub key: Option<IdempotencyKey>,
    /// The buyer, if the request names one.
    pub buyer: Option<BuyerId>,
}

impl Purchase {
    /// Makes a purchase of one SKU, without a key.
    pub fn of_one(goods_no: GoodsNo, quantity: Quantity, buyer: Option<BuyerId>) -> Self {
        Self { cart: Cart::of_one(goods_no, quantity), key: None, buyer }
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(goods_no: &str, units: i64) -> Line {
        Line { goods_no: goods_no.parse().unwrap(), quantity: Quantity::new(units).unwrap() }
    }

    #[test]
    fn a_cart_has_lines_of_different_goods() {
        assert_eq!(Cart::new(Vec::new()), Err(InvalidCart::Lines(0)));
        let many = |count: usize| Cart::new((1..=count).map(|number| line(&number.to_string(), 1)).collect());
        assert!(many(Cart::LINES_MAX).is_ok());
        assert_eq!(many(Cart::LINES_MAX + 1), Err(InvalidCart::Lines(Cart::LINES_MAX + 1)));
        let repeated = Cart::new(vec![line("7", 1), line("8", 1), line("7", 2)]);
        assert_eq!(repeated, Err(InvalidCart::Repeated("7".parse().unwrap())));
    }

    #[test]
    fn the_canonical_order_follows_the_numbers() {
        let given = vec![line("10", 1), line("9", 2), line("100", 3)];
        let cart = Cart::new(given.clone()).unwrap();
        assert_eq!(cart.in_order(LockSequence::Given), given);
        assert_eq!(cart.in_order(LockSequence::Canonical), [line("9", 2), line("10", 1), line("100", 3)]);
        assert_eq!(cart.lines(), given);
    }

    #[test]
    fn the_name_of_a_buyer_is_short_and_visible() {
        let longest = "b".repeat(BuyerId::BYTES_MAX);
        for text in ["1", "ann@example.com", "\"7\"", &longest] {
            assert_eq!(text.parse::<BuyerId>().unwrap().as_str(), text);
        }
        for text in ["", " ", "two words", "tab\t", "Käufer", &"b".repeat(BuyerId::BYTES_MAX + 1)] {
            assert_eq!(text.parse::<BuyerId>(), Err(InvalidBuyer), "{text:?}");
        }
    }

    #[test]
    fn a_key_is_short_and_visible() {
        let longest = "k".repeat(IdempotencyKey::BYTES_MAX);
        for text in ["1", "3f1c8f0e-8a0e-4d0e-9a55-0d6c3d7b8a11", "a'b", &longest] {
            assert_eq!(text.parse::<IdempotencyKey>().unwrap().as_str(), text);
        }
        for text in
            ["", " ", "\"", "\"quoted\"", "two words", "tab\t", "schlüssel", &"k".repeat(IdempotencyKey::BYTES_MAX + 1)]
        {
            assert_eq!(text.parse::<IdempotencyKey>(), Err(InvalidKey), "{text:?}");
        }
    }
}
