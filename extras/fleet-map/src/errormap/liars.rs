//! Who is to be disbelieved, so that the rest is free of contradictions.

use std::collections::{BTreeMap, BTreeSet};

use crate::errormap::graph::{Graph, Vertex};

/// Contradictions that are counted at a time, and more in a small fleet: by so many edges
/// that are looked at.
const AT_A_TIME: usize = 8;
const WORK: usize = 200_000;
/// On one loop so many are tried; on longer ones, those on most loops.
const TRIED: usize = 16;
/// So many are named by trying each; beyond, those on most loops are left out.
const NAMED: usize = 32;

/// Somebody is wrong.
#[derive(Debug, Clone)]
pub(crate) struct Culprits {
    /// Without any one of these, all others named left out, nothing contradicts.
    pub(crate) suspects: Vec<Vertex>,
    /// The loop that shows it, by its edges.
    pub(crate) shown_by: Vec<u32>,
}

/// Leaves out of the graph as few vertices as it can, and all among which it cannot
/// tell, so that no contradiction is left: first clocks, by pairs alone, then claims, so
/// that no clock is disbelieved because of what others say of UTC.
pub(crate) fn leave_out(graph: &mut Graph) -> Vec<Culprits> {
    let utc = graph.utc() as usize;
    graph.heard[utc] = false;
    let mut all = leave_out_heard(graph);
    graph.heard[utc] = true;
    all.extend(leave_out_heard(graph));
    all
}

fn leave_out_heard(graph: &mut Graph) -> Vec<Culprits> {
    let mut all: Vec<Culprits> = Vec::new();
    let most = AT_A_TIME + WORK / graph.edges.len().max(1);
    // Each round leaves one out at least.
    for _ in 0..graph.vertices() {
        let mut loops = graph.contradictions(most);
        if loops.is_empty() {
            break;
        }
        loops.sort_by_key(Vec::len);
        let counts = on_loops(graph, &loops);
        // While few are wrong, one at a time: the next round sees what is left.
        let is_tried = all.len() < NAMED;
        for shown_by in loops.into_iter().take(if is_tried { 1 } else { most }) {
            let on_it = ranked(graph, &shown_by, &counts);
            if on_it.is_empty() || on_it.iter().any(|vertex| !graph.heard[*vertex as usize]) {
                continue;
            }
            let suspects = if is_tried { best(graph, &on_it, most) } else { on_it };
            // Of those that were not tried it may be each.
            let named = suspects.into_iter().take(if is_tried { 1 } else { usize::MAX });
            let suspects: Vec<Vertex> = named.collect();
            suspects.iter().for_each(|vertex| graph.heard[*vertex as usize] = false);
            all.push(Culprits { suspects, shown_by });
        }
    }
    for it in all.iter_mut().take(NAMED) {
        add_suspects(graph, it);
    }
    // Cleared by what was left out later.
    all.retain(|it| !it.suspects.is_empty());
    for vertex in all.iter().flat_map(|it| &it.suspects) {
        graph.heard[*vertex as usize] = false;
    }
    all
}

/// On how many of the loops each vertex is.
fn on_loops(graph: &Graph, loops: &[Vec<u32>]) -> BTreeMap<Vertex, usize> {
    let mut counts = BTreeMap::new();
    for vertex in loops.iter().flat_map(|edges| suspects_on(graph, edges)) {
        *counts.entry(vertex).or_default() += 1;
    }
    counts
}

/// The vertices of a loop that can be wrong: where UTC is heard, claims.
fn suspects_on(graph: &Graph, edges: &[u32]) -> BTreeSet<Vertex> {
    let utc = graph.utc();
    let to = edges.iter().map(|edge| graph.edges[*edge as usize].to);
    to.filter(|vertex| *vertex > utc || !graph.heard[utc as usize]).collect()
}

/// Those of a loop, the likeliest first: who is on most loops.
fn ranked(graph: &Graph, edges: &[u32], counts: &BTreeMap<Vertex, usize>) -> Vec<Vertex> {
    let mut on_it: Vec<Vertex> = suspects_on(graph, edges).into_iter().collect();
    let count = |vertex: &Vertex| counts.get(vertex).copied().unwrap_or_default();
    on_it.sort_by_key(|vertex| (std::cmp::Reverse(count(vertex)), *vertex));
    on_it
}

/// Those without one of which the fewest contradictions are left, the likeliest first.
fn best(graph: &mut Graph, on_it: &[Vertex], most: usize) -> Vec<Vertex> {
    let mut left = Vec::new();
    for &vertex in on_it.iter().take(TRIED) {
        graph.heard[vertex as usize] = false;
        left.push((graph.contradictions(most).len(), vertex));
        graph.heard[vertex as usize] = true;
    }
    let least = left.iter().map(|it| it.0).min();
    left.into_iter().filter(|it| Some(it.0) == least).map(|it| it.1).collect()
}

/// Who else it may be, all others left out as they are: each in whose place
/// the one named could be believed. Nobody at all, if even so there is no contradiction.
fn add_suspects(graph: &mut Graph, it: &mut Culprits) {
    let Some(&named) = it.suspects.first() else { return };
    graph.heard[named as usize] = true;
    let Err(loops) = graph.feasible() else {
        it.suspects.clear();
        return;
    };
    let Some(shown_by) = loops.into_iter().min_by_key(Vec::len) else { return };
    for vertex in suspects_on(graph, &shown_by) {
        if vertex == named {
            continue;
        }
        graph.heard[vertex as usize] = false;
        if graph.feasible().is_ok() {
            it.suspects.push(vertex);
        }
        graph.heard[vertex as usize] = true;
    }
    it.shown_by = shown_by;
    graph.heard[named as usize] = false;
}

/// Whose claim a vertex is.
pub(crate) fn claimant(graph: &Graph, vertex: Vertex) -> Option<u32> {
    let index = (vertex as usize).checked_sub(graph.nodes + 1)?;
    graph.claims.get(index).copied()
}
