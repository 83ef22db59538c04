//! Whole lives of executions, phase by phase.

mod claiming;
mod deciding;
mod life;
mod running;
mod storm;

use life::Life;
