package main

import (
	"fmt"
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
)

// programs are the tutorials by name.
var programs = map[string]func(ch *amqp.Channel, args []string) error{
	"hello_send":          helloSend,
	"hello_receive":       helloReceive,
	"new_task":            newTask,
	"worker":              worker,
	"emit_log":            emitLog,
	"receive_logs":        receiveLogs,
	"emit_log_direct":     emitLogDirect,
	"receive_logs_direct": receiveLogsDirect,
	"emit_log_topic":      emitLogTopic,
	"receive_logs_topic":  receiveLogsTopic,
	"rpc_client":          rpcClient,
	"rpc_server":          rpcServer,
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		log.Fatal("usage: tutorials PROGRAM [ARGUMENT...]")
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		log.Fatalf("%s: %v", os.Args[1], err)
	}
}

func run(name string, args []string) error {
	conn, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	return programs[name](ch, args)
}

// ready tells the test that messages are awaited.
func ready() { fmt.Println("ready") }
