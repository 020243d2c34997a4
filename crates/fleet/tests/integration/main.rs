//! Modelled fleets, whose truth is known, and the dashboard and rules by their own tools.

mod alerts;
mod dashboard;
mod model;
mod naming;
mod truth;
