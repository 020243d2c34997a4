//! Difference constraints as a graph, and the loops that no clocks can satisfy.
//!
//! An edge from u to v of weight w says: v is ahead of u by at most w. Edges 2i and
//! 2i + 1 are the two sides of one interval. Along a path the weights add up to a bound;
//! around a loop of negative sum a clock would be behind itself: somebody on it is wrong.

use crate::errormap::samples::PairInterval;

/// A vertex: a node by its number, then UTC, then a claim each.
pub(crate) type Vertex = u32;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) from: Vertex,
    pub(crate) to: Vertex,
    pub(crate) most_ns: i64,
}

/// The constraints of a fleet.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) nodes: usize,
    /// Whose claim the vertices after UTC are.
    pub(crate) claims: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
    /// The edges that leave a vertex: from its place in `starts` to the next one's.
    starts: Vec<u32>,
    leaving: Vec<u32>,
    /// Vertices whose edges count.
    pub(crate) heard: Vec<bool>,
    /// Edges looked at, for all that was asked.
    pub(crate) work: u64,
    /// Of which no more are looked at for contradictions.
    most_work: u64,
}

/// No edge led here.
const NONE: u32 = u32::MAX;

/// Loops, each by its edges in order.
type Loops = Vec<Vec<u32>>;

/// What edges are left out of a search, and where it is.
struct Search {
    potential: Vec<i128>,
    left_out: Vec<bool>,
}

impl Graph {
    pub(crate) fn new(
        nodes: usize,
        pairs: &[PairInterval],
        claims: &[(u32, i64, i64)],
        most_work: u64,
    ) -> Self {
        let utc = nodes as Vertex;
        let interval = |from: Vertex, to: Vertex, min_ns: i64, max_ns: i64| {
            let back = Edge { from: to, to: from, most_ns: min_ns.saturating_neg() };
            [Edge { from, to, most_ns: max_ns }, back]
        };
        let of_pair =
            |pair: &PairInterval| interval(pair.nodes.0, pair.nodes.1, pair.min_ns, pair.max_ns);
        let mut edges: Vec<Edge> = pairs.iter().flat_map(of_pair).collect();
        for (index, &(node, min_ns, max_ns)) in claims.iter().enumerate() {
            let vertex = utc + 1 + index as Vertex;
            // The claim is a thing of its own, so that it can be disbelieved alone.
            edges.extend(interval(utc, vertex, min_ns, max_ns));
            edges.extend(interval(vertex, node, 0, 0));
        }
        let vertices = nodes + 1 + claims.len();
        let mut starts = vec![0; vertices + 1];
        edges.iter().for_each(|edge| starts[edge.from as usize + 1] += 1);
        for vertex in 0..vertices {
            starts[vertex + 1] += starts[vertex];
        }
        let (mut next, mut leaving) = (starts.clone(), vec![0; edges.len()]);
        for (index, edge) in edges.iter().enumerate() {
            let place = &mut next[edge.from as usize];
            leaving[*place as usize] = index as u32;
            *place += 1;
        }
        let claims = claims.iter().map(|claim| claim.0).collect();
        Self {
            nodes,
            claims,
            edges,
            starts,
            leaving,
            heard: vec![true; vertices],
            work: 0,
            most_work,
        }
    }

    pub(crate) fn vertices(&self) -> usize {
        self.heard.len()
    }

    /// No more is looked for, and what was found is worth nothing.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.work > self.most_work
    }

    pub(crate) fn utc(&self) -> Vertex {
        self.nodes as Vertex
    }

    /// The edges that leave a vertex, by number. Those of the other direction come in.
    pub(crate) fn leaving(&self, vertex: Vertex) -> &[u32] {
        let vertex = vertex as usize;
        &self.leaving[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }

    pub(crate) fn is_heard(&self, edge: Edge) -> bool {
        self.heard[edge.from as usize] && self.heard[edge.to as usize]
    }

    /// A time for each vertex that satisfies all constraints, or loops that show that
    /// there is none.
    pub(crate) fn feasible(&mut self) -> Result<Vec<i128>, Loops> {
        let mut search = self.search();
        self.relax(&mut search).map(|()| search.potential)
    }

    /// Loops of negative sum of which no two share an edge, up to `most`.
    pub(crate) fn contradictions(&mut self, most: usize) -> Loops {
        let (mut search, mut all) = (self.search(), Loops::new());
        while all.len() < most {
            let Err(loops) = self.relax(&mut search) else { break };
            for edge in loops.iter().flatten() {
                search.left_out[*edge as usize] = true;
            }
            all.extend(loops);
        }
        all.truncate(most);
        all
    }

    fn search(&self) -> Search {
        let (potential, left_out) = (vec![0; self.vertices()], vec![false; self.edges.len()]);
        Search { potential, left_out }
    }

    /// Bellman and Ford: a pass over all edges, till none changes anything or the edges
    /// by which vertices were reached last make loops. Without a loop the passes are no
    /// more than the vertices; [`Self::is_exhausted`] ends them.
    fn relax(&mut self, search: &mut Search) -> Result<(), Loops> {
        let Search { potential, left_out } = search;
        let mut led = vec![NONE; self.vertices()];
        for _ in 0..=self.vertices() {
            if self.is_exhausted() {
                break;
            }
            let mut is_changed = false;
            self.work += (self.edges.len() + self.vertices()) as u64;
            for (index, edge) in self.edges.iter().enumerate() {
                let by_edge = potential[edge.from as usize] + i128::from(edge.most_ns);
                if by_edge < potential[edge.to as usize] && !left_out[index] && self.is_heard(*edge)
                {
                    (potential[edge.to as usize], led[edge.to as usize]) = (by_edge, index as u32);
                    is_changed = true;
                }
            }
            if !is_changed {
                return Ok(());
            }
            let loops = self.loops(&led);
            if !loops.is_empty() {
                return Err(loops);
            }
        }
        Ok(())
    }

    /// The loops among the edges that led to each vertex: each is of negative sum.
    fn loops(&self, led: &[u32]) -> Loops {
        let mut seen_by = vec![NONE; led.len()];
        let mut loops = Loops::new();
        for start in 0..led.len() {
            let mut at = start;
            while seen_by[at] == NONE && led[at] != NONE {
                seen_by[at] = start as u32;
                at = self.edges[led[at] as usize].from as usize;
            }
            // At an end, or at what an earlier walk has seen.
            if led[at] == NONE || seen_by[at] != start as u32 {
                continue;
            }
            let (end, mut edges) = (at, Vec::new());
            loop {
                edges.push(led[at]);
                at = self.edges[led[at] as usize].from as usize;
                if at == end {
                    break;
                }
            }
            edges.reverse();
            loops.push(edges);
        }
        loops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(first: u32, second: u32, min_ns: i64, max_ns: i64) -> PairInterval {
        PairInterval {
            nodes: (first, second),
            min_ns,
            max_ns,
            middle_ns: min_ns.midpoint(max_ns),
            widened_ns: 0,
            samples: 1,
            age_ns: 0,
            is_broken: false,
        }
    }

    #[test]
    fn a_loop_of_negative_sum_is_found_with_its_edges_in_order() {
        let round = |last| [pair(0, 1, 1, 2), pair(1, 2, 1, 2), pair(0, 2, last - 1, last)];
        assert!(Graph::new(3, &round(4), &[], u64::MAX).feasible().is_ok());
        // 1 is ahead of 0, 2 of 1, and 2 is behind 0.
        let mut graph = Graph::new(3, &round(-1), &[], u64::MAX);
        let loops = graph.feasible().unwrap_err();
        let edges: Vec<Edge> = loops[0].iter().map(|edge| graph.edges[*edge as usize]).collect();
        assert_eq!(edges.iter().map(|edge| edge.most_ns).sum::<i64>(), -3);
        for (one, next) in edges.iter().zip(edges.iter().cycle().skip(1)) {
            assert_eq!(one.to, next.from);
        }
        graph.heard[1] = false;
        assert!(graph.feasible().is_ok());
        assert_eq!(graph.contradictions(8), Loops::new());
    }

    #[test]
    fn claims_contradict_each_other_by_way_of_utc() {
        let claims = [(0, -10, 10), (1, -10, 10)];
        assert!(Graph::new(2, &[pair(0, 1, 15, 20)], &claims, u64::MAX).feasible().is_ok());
        let mut graph = Graph::new(2, &[pair(0, 1, 25, 30)], &claims, u64::MAX);
        assert!(graph.feasible().is_err());
        // Without the first claim.
        graph.heard[3] = false;
        assert!(graph.feasible().is_ok());
    }
}
