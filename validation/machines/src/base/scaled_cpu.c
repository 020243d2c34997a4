// SPDX-License-Identifier: GPL-2.0
/*
 * A CPU whose frequency can be chosen, to a ten-thousandth less, and which goes
 * on as before: what a kernel tells others of it changes. Built for the hosts of
 * `cargo xtask machines`; a real driver needs a real CPU.
 */
#include <linux/cpufreq.h>
#include <linux/module.h>
#include <asm/tsc.h>

static struct cpufreq_frequency_table table[3];

static int start(struct cpufreq_policy *policy)
{
	table[0].frequency = tsc_khz;
	table[1].frequency = tsc_khz - tsc_khz / 10000;
	table[2].frequency = CPUFREQ_TABLE_END;
	policy->freq_table = table;
	policy->cur = tsc_khz;
	cpumask_setall(policy->cpus);
	return 0;
}

static int choose(struct cpufreq_policy *policy, unsigned int index)
{
	return 0;
}

static struct cpufreq_driver driver = {
	.name = "scaled_cpu",
	.verify = cpufreq_generic_frequency_table_verify,
	.init = start,
	.target_index = choose,
};

static int __init load(void)
{
	return cpufreq_register_driver(&driver);
}

module_init(load);
MODULE_DESCRIPTION("A CPU whose frequency can be chosen");
MODULE_LICENSE("GPL");
