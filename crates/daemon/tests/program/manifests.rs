//! The manifests for Kubernetes: what they promise, and what the rules need of them.

use saphyr::{LoadableYamlNode, Yaml};

fn manifests(name: &str) -> Vec<Yaml<'static>> {
    let path = format!("{}/../../packaging/kubernetes/{name}", env!("CARGO_MANIFEST_DIR"));
    let text: &'static str = Box::leak(std::fs::read_to_string(path).unwrap().into_boxed_str());
    Yaml::load_from_str(text).unwrap()
}

#[test]
fn the_daemon_set_is_unprivileged_and_is_what_is_monitored() {
    let documents = manifests("daemonset.yaml");
    let [set, configuration] = &documents[..] else { panic!("{} documents", documents.len()) };
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let rights = &container["securityContext"];
    assert_eq!(rights["capabilities"]["drop"][0].as_str(), Some("ALL"));
    assert_eq!(rights["allowPrivilegeEscalation"].as_bool(), Some(false));
    assert_eq!(rights["readOnlyRootFilesystem"].as_bool(), Some(true));
    assert_eq!(pod["securityContext"]["runAsNonRoot"].as_bool(), Some(true));
    assert_eq!(pod["automountServiceAccountToken"].as_bool(), Some(false));
    assert_eq!(container["volumeMounts"][0]["readOnly"].as_bool(), Some(true));
    for absent in ["hostPID", "hostNetwork", "hostIPC", "hostUsers"] {
        assert!(!pod.contains_mapping_key(absent), "{absent}");
    }
    assert!(!rights.contains_mapping_key("privileged"));
    // Whoever reaches the port meets nginx, which needs TLS and a password, and the metrics alone.
    let arguments: Vec<_> =
        container["args"].as_sequence().unwrap().iter().filter_map(|it| it.as_str()).collect();
    assert!(arguments.contains(&"--listen=127.0.0.1:9974"), "{arguments:?}");
    assert!(arguments.contains(&"--metrics-only"), "{arguments:?}");
    let proxy = &pod["containers"][1];
    let mounts = proxy["volumeMounts"].as_sequence().unwrap();
    let mounted = |name: &str| {
        let mount = mounts.iter().find(|mount| mount["name"].as_str() == Some(name)).unwrap();
        mount["mountPath"].as_str().unwrap().to_owned()
    };
    let configuration = configuration["data"]["parachron.conf"].as_str().unwrap();
    for needed in ["listen 9975 ssl;", "auth_basic parachron;", "proxy_pass http://127.0.0.1:9974;"]
    {
        assert!(configuration.contains(needed), "{configuration}");
    }
    for (key, file) in [
        ("ssl_certificate", "tls.crt"),
        ("ssl_certificate_key", "tls.key"),
        ("auth_basic_user_file", "htpasswd"),
    ] {
        let line = format!("{key} {}/{file};", mounted("web"));
        assert!(configuration.contains(&line), "{line}: {configuration}");
    }
    assert_eq!(mounted("proxy"), "/etc/nginx/conf.d");
    let volumes = pod["volumes"].as_sequence().unwrap();
    let web = volumes.iter().find(|volume| volume["name"].as_str() == Some("web")).unwrap();

    let documents = manifests("podmonitor.yaml");
    let [monitor] = &documents[..] else { panic!("{} documents", documents.len()) };
    let labels = |of: &Yaml<'_>| of["app.kubernetes.io/name"].as_str().map(str::to_owned);
    let selected = labels(&monitor["spec"]["selector"]["matchLabels"]);
    assert!(selected.is_some());
    assert_eq!(selected, labels(&set["spec"]["template"]["metadata"]["labels"]));
    assert_eq!(selected, labels(&set["spec"]["selector"]["matchLabels"]));
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    assert_eq!(endpoint["port"].as_str(), proxy["ports"][0]["name"].as_str());
    assert_eq!(endpoint["scheme"].as_str(), Some("https"));
    let (ca, web) = (&endpoint["tlsConfig"]["ca"]["secret"], &web["secret"]);
    assert_eq!(ca["name"].as_str(), web["secretName"].as_str());
    assert!(endpoint["basicAuth"].contains_mapping_key("password"));
    // A rule asks for `job=~"parachron.*"`; an alert about a node names it.
    let job = &endpoint["relabelings"][0];
    assert_eq!(
        (job["targetLabel"].as_str(), job["replacement"].as_str()),
        (Some("job"), Some("parachron"))
    );
    assert!(include_str!("../../../../packaging/alerts.yml").contains("job=~\"parachron.*\""));
    assert_eq!(endpoint["relabelings"][1]["targetLabel"].as_str(), Some("instance"));
}
