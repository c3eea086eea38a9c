//! The ways to read and write the stock in a critical section.

use crate::stock::store::Isolation;

/// How a section reads the stock, and what has to be so when it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It overwrites the stock with what it had read minus the quantity. Only a lock around all of it makes that right.
    Overwrite,
    /// As `Overwrite`, if nobody with a later token has read the stock meanwhile. Reading raises the fence of the row,
    /// which is committed before the business time begins, so that nobody waits for it.
    Fenced,
    /// As `Overwrite`, with the rows locked from the read to the commit.
    RowLock,
    /// As `Overwrite`, under advisory locks of the database from before the read to the commit.
    AdvisoryLock,
    /// As `Overwrite`, if nobody has written the row since it was read.
    Version,
    /// As `Overwrite`, if the database finds that it went as if there was nobody else.
    Serializable,
    /// It takes the units if enough are left *at that instant*.
    ///
    /// The read decides nothing for good: it names the sale, so that a straggler cannot sell out of the next one, and
    /// it spares a buyer who comes too late the business time. The time passes before the update, where the transaction
    /// holds no row lock yet. After it, every other buyer would wait for it too, which is what this access does away
    /// with; a service must do its business first and take the stock last for this to be a fair picture of it.
    Conditional,
}

/// From where to where nobody else may be in a section of the same SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exclusion {
    /// From before the read until after the commit: what a lock around the section guards, or should.
    Whole,
    /// From the read to the commit, while the database keeps the rows locked.
    FromRead,
    /// From the write to the commit.
    FromWrite,
    /// Nowhere: sections may overlap, and those that should not have are tried again.
    Never,
}

impl Access {
    /// Where sections exclude each other without any lock around them.
    pub fn exclusion(self) -> Exclusion {
        match self {
            Self::Overwrite | Self::Fenced => Exclusion::Whole,
            Self::RowLock | Self::AdvisoryLock => Exclusion::FromRead,
            Self::Conditional => Exclusion::FromWrite,
            Self::Version | Self::Serializable => Exclusion::Never,
        }
    }

    /// What the transaction of a section sees of others.
    pub fn isolation(self) -> Isolation {
        if self == Self::Serializable { Isolation::Serializable } else { Isolation::ReadCommitted }
    }
}
