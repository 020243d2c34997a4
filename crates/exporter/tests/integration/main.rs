//! The Kubernetes manifests, and probes between nodes.

mod hostile;
mod interleaved;
mod manifests;
