// Package exit names the exit codes of amqpctl and maps errors onto them.
//
// The codes are those of sysexits as the RabbitMQ tools use them, so that scripts written for those keep their meaning. Every error that
// leaves a command passes Of once, in main: before it stand the packages that talk to a broker (httpapi, amqplink, lean), behind it only
// os.Exit. Invariant: equal causes give equal codes, whichever of the two protocols reported them.
package exit
