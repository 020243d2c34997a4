//! The likeliest time of each clock: least squares over what the pairs show.

use crate::errormap::samples::PairInterval;

/// A random graph's far ends are a few steps apart; its equations settle in tens of steps.
const STEPS: usize = 60;

/// By how much each node is ahead of a common zero that is nobody's, ns: the least sum of
/// squares of what is left of each pair's middle, each weighed by its width. `start` is a
/// first guess. Of pairs whose nodes are not `heard` nothing is taken.
///
/// Conjugate gradients on the normal equations, preconditioned by their diagonal.
pub(crate) fn least_squares(start: &[f64], heard: &[bool], pairs: &[PairInterval]) -> Vec<f64> {
    let is_heard =
        |pair: &&PairInterval| heard[pair.nodes.0 as usize] && heard[pair.nodes.1 as usize];
    let springs: Vec<(usize, usize, f64, f64)> = pairs
        .iter()
        .filter(is_heard)
        .map(|pair| {
            let width_us = (pair.max_ns.saturating_sub(pair.min_ns)) as f64 / 1e3 + 1.0;
            let nodes = (pair.nodes.0 as usize, pair.nodes.1 as usize);
            (nodes.0, nodes.1, pair.middle_ns as f64, 1.0 / (width_us * width_us))
        })
        .collect();
    let mut diagonal = vec![f64::MIN_POSITIVE; start.len()];
    let mut at = start.to_vec();
    let mut left = vec![0.0; start.len()];
    for &(a, b, middle, weight) in &springs {
        let pull = weight * (middle - (at[b] - at[a]));
        (left[a], left[b]) = (left[a] - pull, left[b] + pull);
        (diagonal[a], diagonal[b]) = (diagonal[a] + weight, diagonal[b] + weight);
    }
    let conditioned =
        |left: &[f64]| -> Vec<f64> { left.iter().zip(&diagonal).map(|(l, d)| l / d).collect() };
    let dot =
        |one: &[f64], other: &[f64]| -> f64 { one.iter().zip(other).map(|(a, b)| a * b).sum() };
    let mut direction = conditioned(&left);
    let mut size = dot(&left, &direction);
    let enough = size * 1e-12;
    for _ in 0..STEPS {
        let mut image = vec![0.0; at.len()];
        for &(a, b, _, weight) in &springs {
            let pull = weight * (direction[b] - direction[a]);
            (image[a], image[b]) = (image[a] - pull, image[b] + pull);
        }
        let curvature = dot(&direction, &image);
        // Nothing is left to gain, or it is no number.
        if !(size > enough && curvature > 0.0) {
            break;
        }
        let step = size / curvature;
        for node in 0..at.len() {
            at[node] += step * direction[node];
            left[node] -= step * image[node];
        }
        let better = conditioned(&left);
        let next = dot(&left, &better);
        for node in 0..at.len() {
            direction[node] = better[node] + next / size * direction[node];
        }
        size = next;
    }
    at
}
