use super::*;

#[test]
fn os_release_keeps_three_lines() {
    let text = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=x\nID=debian\nVERSION_ID=\"12\"\n\
                MACHINE_SECRET=1\n";
    let reduced = reduce_os_release(text);
    assert_eq!(
        reduced,
        "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID=\"12\"\n"
    );
    let name = |text: &str| parse_distribution(text).value().cloned();
    assert_eq!(name(&reduced).as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
    assert_eq!(name("ID=alpine\nVERSION_ID=3.20\n").as_deref(), Some("alpine 3.20"));
    assert_eq!(name("ID=arch\n").as_deref(), Some("arch"));
    assert_eq!(name(""), None);
}

#[test]
fn steal_is_a_part_of_all_time() {
    let text = "cpu  10 0 10 60 0 0 0 10 5 0\ncpu0 1 2\ncpu1 1 2\nintr 1 2 3\nbtime 1\n";
    let reduced = reduce_stat(text);
    assert_eq!(reduced, "cpu  10 0 10 60 0 0 0 10 5 0\ncpu0 1 2\ncpu1 1 2\nbtime 1\n");
    // A tenth of a second of two CPUs' half a second each; the ticks add up to 0.9 s alone.
    assert_eq!(parse_steal(&reduced, Some(0.5)), Fact::Known(0.1));
    assert_eq!(parse_steal(&reduced, Some(0.01)), Fact::Known(1.0), "Xen counts from before");
    for unknown in [None, Some(0.0), Some(-1.0), Some(f64::NAN)] {
        assert_eq!(parse_steal(&reduced, unknown), Fact::Known(10.0 / 90.0), "{unknown:?}");
    }
    let no_cpu = "cpu  10 0 10 60 0 0 0 10 5 0\n";
    assert_eq!(parse_steal(no_cpu, Some(0.5)), Fact::Known(10.0 / 90.0));
    assert_eq!(parse_steal("cpu  0 0 0 0 0 0 0 0\n", None), Fact::Known(0.0));
    let most = u64::MAX;
    let most = format!("cpu  0 0 0 {most} 0 0 0 {most} 0 0\n");
    assert_eq!(parse_steal(&most, None), Fact::Known(0.5));
    for bad in ["", "cpu  1 2 3\n", "cpu  1 2 3 4 5 6 7 x\n", "cpu  1 2 3 4 5 6 7 -8\n"] {
        assert!(parse_steal(bad, Some(1.0)).unknown().is_some(), "{bad}");
    }
}

#[test]
fn uptime_and_load_are_numbers() {
    assert_eq!(parse_uptime("3029.28 5000.00\n"), Fact::Known(3029.28));
    assert_eq!(reduce_loadavg("4.29 3.07 1.94 5/139 22222\n"), "4.29 3.07 1.94\n");
    assert_eq!(parse_loadavg("4.29 3.07 1.94\n"), Fact::Known([4.29, 3.07, 1.94]));
    for bad in ["", "x", "inf", "nan", "1 2"] {
        assert!(parse_loadavg(bad).unknown().is_some(), "{bad}");
    }
    assert!(parse_uptime("inf").unknown().is_some());
}

#[test]
fn what_an_image_left_behind_makes_no_container() {
    let name = |text: &str| parse_container(text).value().cloned();
    assert_eq!(name("namespaces initial\n/.dockerenv\n"), None);
    assert_eq!(name("namespaces own\n/.dockerenv\n").as_deref(), Some("docker"));
    assert_eq!(name("/run/.containerenv\n").as_deref(), Some("podman"));
    assert_eq!(name("namespaces own\n/run/systemd/container lxc\n").as_deref(), Some("lxc"));
    assert_eq!(name("namespaces own\n").as_deref(), Some("unrecognised"));
    assert_eq!(name("\n"), None);
}
