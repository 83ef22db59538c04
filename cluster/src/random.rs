//! The only source of randomness: ids, tokens and jitter. A simulated machine has its own.

use rand::distr::{Distribution, StandardUniform};
use rand::{Rng, RngExt};

/// A generator of this thread, or of the simulated machine that the caller runs on.
#[cfg(not(feature = "testing"))]
pub(crate) fn rng() -> impl Rng {
    rand::rng()
}

#[cfg(feature = "testing")]
pub(crate) fn rng() -> impl Rng {
    crate::simulation::Dice::of_this_machine()
}

/// A value drawn at random.
pub(crate) fn draw<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    rng().random()
}
