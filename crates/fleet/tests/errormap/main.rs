//! Modelled fleets, whose truth is known.

mod model;
mod naming;
mod truth;
