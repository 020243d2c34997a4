use super::render;
use crate::commands::bench::sample::{report, run};

#[test]
fn every_line_is_one_figure() {
    let csv = render(&report(vec![run("tsc", 27.1)]));
    assert!(csv.lines().all(|line| !line.contains('"') && line.matches(',').count() == 5), "{csv}");
    assert!(csv.starts_with("clocksource,measurement,subject,figure,unit,value\r\n"));
    for line in [
        "tsc,cost,clock_gettime(CLOCK_MONOTONIC),median,ns,27.1",
        "tsc,cost,clock_gettime(CLOCK_PROCESS_CPUTIME_ID),entered the kernel,1,990",
        "tsc,granularity,CLOCK_MONOTONIC,step observed,ns,70",
        "tsc,order,TSC across CPUs,backward,1,3",
        "tsc,skew,CPU 127 against CPU 0,offset,ns,-12.25",
        "tsc,throughput,primes below 10000 by 1,whole run,events/s,870.0141",
    ] {
        assert!(csv.lines().any(|found| found.starts_with(line)), "{line} is not in:\n{csv}");
    }
}
