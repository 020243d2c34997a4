//! A web configuration, the Kubernetes manifests, and probes between nodes.

mod access;
mod hostile;
mod interleaved;
mod manifests;
