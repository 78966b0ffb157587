package amqp

import (
	"errors"
	"reflect"
	"testing"
)

// dispatchTo dispatches a payload and returns the method whose handler was called, 0 for none.
func dispatchTo(payload []byte, connection bool) (MethodID, error) {
	var got MethodID
	h := &noting{note: func(id MethodID) { got = id }}
	var err error
	if connection {
		err = DispatchConnection(h, payload)
	} else {
		err = DispatchChannel(h, payload)
	}
	return got, err
}

// TestDispatchReachesTheHandlerOfEachMethod sends every method to both dispatchers: one of them calls the handler, the other, or both for
// methods that only a client receives, answer 503 with the method's id.
func TestDispatchReachesTheHandlerOfEachMethod(t *testing.T) {
	for _, id := range MethodIDs() {
		m := NewMethod(id)
		fill(m, true)
		for _, connection := range []bool{true, false} {
			got, err := dispatchTo(m.Append(nil), connection)
			if id.ToServer() && connection == (id.Class() == ClassConnection) {
				if err != nil || got != id {
					t.Errorf("%v arrived as %v, %v", id, got, err)
				}
				continue
			}
			var e *Error
			if !errors.As(err, &e) || e.Code != ReplyCommandInvalid || e.Method() != id || got != 0 {
				t.Errorf("%v arrived as %v, %v", id, got, err)
			}
		}
	}
}

func TestDispatchDoesNotCallAHandlerWithABadMethod(t *testing.T) {
	for _, id := range MethodIDs() {
		m := NewMethod(id)
		fill(m, true)
		payload := append(m.Append(nil), 0)
		for _, connection := range []bool{true, false} {
			if got, err := dispatchTo(payload, connection); err == nil || got != 0 {
				t.Errorf("%v with an octet too many arrived as %v, %v", id, got, err)
			}
		}
	}
}

func TestDispatchPassesErrorsOn(t *testing.T) {
	want := errors.New("refused")
	if err := DispatchChannel(&noting{err: want}, (&QueuePurge{}).Append(nil)); err != want {
		t.Errorf("got %v", err)
	}
}

func TestHandlersCoverAllMethodsForAServer(t *testing.T) {
	n := 0
	for _, id := range MethodIDs() {
		if id.ToServer() {
			n++
		}
	}
	handlers := reflect.TypeFor[ConnectionHandler]().NumMethod() + reflect.TypeFor[ChannelHandler]().NumMethod()
	if handlers != n {
		t.Errorf("%d handler methods for %d methods", handlers, n)
	}
}

// noting is a handler of everything that notes which method came.
type noting struct {
	note func(MethodID)
	err  error
}

func (h *noting) take(id MethodID) error {
	if h.note != nil {
		h.note(id)
	}
	return h.err
}

func (h *noting) ConnectionStartOk(m ConnectionStartOk) error { return h.take(MethodConnectionStartOk) }
func (h *noting) ConnectionSecureOk(m ConnectionSecureOk) error {
	return h.take(MethodConnectionSecureOk)
}
func (h *noting) ConnectionTuneOk(m ConnectionTuneOk) error   { return h.take(MethodConnectionTuneOk) }
func (h *noting) ConnectionOpen(m ConnectionOpen) error       { return h.take(MethodConnectionOpen) }
func (h *noting) ConnectionClose(m ConnectionClose) error     { return h.take(MethodConnectionClose) }
func (h *noting) ConnectionCloseOk(m ConnectionCloseOk) error { return h.take(MethodConnectionCloseOk) }
func (h *noting) ConnectionUpdateSecret(m ConnectionUpdateSecret) error {
	return h.take(MethodConnectionUpdateSecret)
}
func (h *noting) ChannelOpen(m ChannelOpen) error             { return h.take(MethodChannelOpen) }
func (h *noting) ChannelFlow(m ChannelFlow) error             { return h.take(MethodChannelFlow) }
func (h *noting) ChannelFlowOk(m ChannelFlowOk) error         { return h.take(MethodChannelFlowOk) }
func (h *noting) ChannelClose(m ChannelClose) error           { return h.take(MethodChannelClose) }
func (h *noting) ChannelCloseOk(m ChannelCloseOk) error       { return h.take(MethodChannelCloseOk) }
func (h *noting) AccessRequest(m AccessRequest) error         { return h.take(MethodAccessRequest) }
func (h *noting) ExchangeDeclare(m ExchangeDeclare) error     { return h.take(MethodExchangeDeclare) }
func (h *noting) ExchangeDelete(m ExchangeDelete) error       { return h.take(MethodExchangeDelete) }
func (h *noting) ExchangeBind(m ExchangeBind) error           { return h.take(MethodExchangeBind) }
func (h *noting) ExchangeUnbind(m ExchangeUnbind) error       { return h.take(MethodExchangeUnbind) }
func (h *noting) QueueDeclare(m QueueDeclare) error           { return h.take(MethodQueueDeclare) }
func (h *noting) QueueBind(m QueueBind) error                 { return h.take(MethodQueueBind) }
func (h *noting) QueuePurge(m QueuePurge) error               { return h.take(MethodQueuePurge) }
func (h *noting) QueueDelete(m QueueDelete) error             { return h.take(MethodQueueDelete) }
func (h *noting) QueueUnbind(m QueueUnbind) error             { return h.take(MethodQueueUnbind) }
func (h *noting) BasicQos(m BasicQos) error                   { return h.take(MethodBasicQos) }
func (h *noting) BasicConsume(m BasicConsume) error           { return h.take(MethodBasicConsume) }
func (h *noting) BasicCancel(m BasicCancel) error             { return h.take(MethodBasicCancel) }
func (h *noting) BasicCancelOk(m BasicCancelOk) error         { return h.take(MethodBasicCancelOk) }
func (h *noting) BasicPublish(m BasicPublishView) error       { return h.take(MethodBasicPublish) }
func (h *noting) BasicGet(m BasicGet) error                   { return h.take(MethodBasicGet) }
func (h *noting) BasicAck(m BasicAck) error                   { return h.take(MethodBasicAck) }
func (h *noting) BasicReject(m BasicReject) error             { return h.take(MethodBasicReject) }
func (h *noting) BasicRecoverAsync(m BasicRecoverAsync) error { return h.take(MethodBasicRecoverAsync) }
func (h *noting) BasicRecover(m BasicRecover) error           { return h.take(MethodBasicRecover) }
func (h *noting) BasicNack(m BasicNack) error                 { return h.take(MethodBasicNack) }
func (h *noting) ConfirmSelect(m ConfirmSelect) error         { return h.take(MethodConfirmSelect) }
func (h *noting) TxSelect(m TxSelect) error                   { return h.take(MethodTxSelect) }
func (h *noting) TxCommit(m TxCommit) error                   { return h.take(MethodTxCommit) }
func (h *noting) TxRollback(m TxRollback) error               { return h.take(MethodTxRollback) }
