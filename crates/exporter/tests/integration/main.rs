//! The Kubernetes manifests.

mod manifests;
