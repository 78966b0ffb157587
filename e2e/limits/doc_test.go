// Package limits feeds brokers what they must refuse: broken frames, wrong names, too much of everything, data directories and ports that they
// cannot have, settings that do not exist. Each case wants the exact refusal (AMQP code and text, exit code and one line that says what to do), and
// afterwards a broker that lives and has every message that was stored before.
//
// The hop before is none; behind is the broker that e2e/harness runs, by way of e2e/harness/rawamqp where no library would send such things.
package limits
