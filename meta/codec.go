package meta

import (
	"fmt"

	"github.com/warrenmq/warren/internal/codec"
)

// AppendCommand appends the deterministic encoding of a command: its op and the fields that count for it.
func AppendCommand(dst []byte, c *Command) []byte {
	dst = codec.AppendUint8(dst, uint8(c.Op))
	switch c.Op {
	case OpFound, OpPutGlobalParameter:
		dst = codec.AppendString(dst, c.Name)
		dst = codec.AppendString(dst, c.Text)
	case OpSetClusterName:
		dst = codec.AppendString(dst, c.Name)
	case OpRegisterNode, OpRegisterBoot, OpNodeDead:
		dst = appendNode(dst, &c.Node)
	case OpPutVHost:
		dst = appendVHost(dst, &c.VHost)
	case OpDeleteVHost:
		dst = codec.AppendString(dst, c.VHost.Name)
	case OpPutUser:
		dst = appendUser(dst, &c.User)
	case OpDeleteUser:
		dst = codec.AppendString(dst, c.User.Name)
	case OpPutPermission, OpDeletePermission:
		dst = appendPermission(dst, &c.Permission)
	case OpPutTopicPermission, OpDeleteTopicPermission:
		dst = appendTopicPermission(dst, &c.Topic)
	case OpSetVHostLimit, OpClearVHostLimit:
		dst = appendLimit(codec.AppendString(dst, c.VHost.Name), c.Limit)
	case OpSetUserLimit, OpClearUserLimit:
		dst = appendLimit(codec.AppendString(dst, c.User.Name), c.Limit)
	case OpPutPolicy, OpDeletePolicy:
		dst = appendPolicy(dst, &c.Policy)
	case OpPutParameter:
		dst = appendParameter(dst, &c.Parameter)
	case OpChangeArguments:
		dst = codec.AppendString(codec.AppendUvarint(dst, uint64(c.Queue.ID)), c.Queue.Changes.raw)
	case OpDeclareExchange:
		dst = appendExchange(dst, &c.Exchange)
	case OpDeleteExchange:
		dst = codec.AppendString(dst, c.Exchange.VHost)
		dst = codec.AppendString(dst, c.Exchange.Name)
		dst = codec.AppendBool(dst, c.IfUnused)
	case OpDeclareQueue:
		dst = appendQueue(dst, &c.Queue)
	case OpAllotReplica:
		dst = codec.AppendUvarint(dst, uint64(c.Queue.ID))
	case OpWantReplicas:
		dst = codec.AppendUvarint(dst, uint64(c.Queue.ID))
		dst = codec.AppendUvarint(dst, c.Queue.ReplicasWanted)
	case OpSetMembers:
		dst = codec.AppendUvarint(dst, uint64(c.Queue.ID))
		dst = codec.AppendUvarint(dst, c.Token)
		dst = appendMembers(dst, c.Queue.Members)
	case OpDeleteQueue, OpDeleteAborted:
		dst = codec.AppendUvarint(dst, uint64(c.Queue.ID))
		dst = codec.AppendUvarint(dst, c.Token)
		if c.Op == OpDeleteQueue {
			dst = codec.AppendBool(dst, c.Drain)
		}
	case OpBind, OpUnbind:
		dst = appendBinding(dst, &c.Binding)
	case OpDropOwned:
		dst = appendOwner(dst, c.Owner)
	case OpSweep:
	}
	return dst
}

// DecodeCommand reads one command that fills src. The result does not alias src. An unknown op, a malformed or truncated field and bytes left over are errors.
func DecodeCommand(src []byte, c *Command) error {
	r := codec.NewReader(src)
	decodeCommand(&r, c)
	if r.Err() == nil && r.Len() != 0 {
		r.Fail(codec.ErrMalformed)
	}
	if r.Err() != nil {
		return fmt.Errorf("catalogue command: %w", r.Err())
	}
	return nil
}

func decodeCommand(r *codec.Reader, c *Command) {
	*c = Command{Op: Op(r.Uint8())}
	switch c.Op {
	case OpFound, OpPutGlobalParameter:
		c.Name, c.Text = r.String(), r.String()
	case OpSetClusterName:
		c.Name = r.String()
	case OpRegisterNode, OpRegisterBoot, OpNodeDead:
		c.Node = decodeNode(r)
	case OpPutVHost:
		c.VHost = decodeVHost(r)
	case OpDeleteVHost:
		c.VHost.Name = r.String()
	case OpPutUser:
		c.User = decodeUser(r)
	case OpDeleteUser:
		c.User.Name = r.String()
	case OpPutPermission, OpDeletePermission:
		c.Permission = decodePermission(r)
	case OpPutTopicPermission, OpDeleteTopicPermission:
		c.Topic = decodeTopicPermission(r)
	case OpSetVHostLimit, OpClearVHostLimit:
		c.VHost.Name, c.Limit = r.String(), decodeLimit(r)
	case OpSetUserLimit, OpClearUserLimit:
		c.User.Name, c.Limit = r.String(), decodeLimit(r)
	case OpPutPolicy, OpDeletePolicy:
		c.Policy = decodePolicy(r)
	case OpPutParameter:
		c.Parameter = decodeParameter(r)
	case OpChangeArguments:
		c.Queue.ID = QueueID(r.Uvarint())
		c.Queue.Changes = decodeArguments(r)
	case OpDeclareExchange:
		c.Exchange = decodeExchange(r)
	case OpDeleteExchange:
		c.Exchange.VHost, c.Exchange.Name = r.String(), r.String()
		c.IfUnused = r.Bool()
	case OpDeclareQueue:
		c.Queue = decodeQueue(r)
	case OpDeleteQueue, OpDeleteAborted:
		c.Queue.ID = QueueID(r.Uvarint())
		c.Token = r.Uvarint()
		c.Drain = c.Op == OpDeleteQueue && r.Bool()
	case OpAllotReplica:
		c.Queue.ID = QueueID(r.Uvarint())
	case OpWantReplicas:
		c.Queue.ID = QueueID(r.Uvarint())
		c.Queue.ReplicasWanted = r.Uvarint()
	case OpSetMembers:
		c.Queue.ID = QueueID(r.Uvarint())
		c.Token = r.Uvarint()
		c.Queue.Members = decodeMembers(r)
	case OpBind, OpUnbind:
		c.Binding = decodeBinding(r)
	case OpDropOwned:
		c.Owner = decodeOwner(r)
	case OpSweep:
	default:
		r.Fail(codec.ErrMalformed)
	}
}

// AppendBatch appends several commands as one log entry.
func AppendBatch(dst []byte, cmds []Command) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(cmds)))
	var one []byte
	for i := range cmds {
		one = AppendCommand(one[:0], &cmds[i])
		dst = codec.AppendBytes(dst, one)
	}
	return dst
}

// DecodeBatch reads a log entry that AppendBatch made, appending to cmds. At most BatchCommandsMax commands are accepted.
func DecodeBatch(src []byte, cmds []Command) ([]Command, error) {
	r := codec.NewReader(src)
	n := r.Count(2)
	if n > BatchCommandsMax {
		r.Fail(codec.ErrMalformed)
		n = 0
	}
	for range n {
		one := codec.NewReader(r.Bytes())
		var c Command
		decodeCommand(&one, &c)
		if one.Err() == nil && one.Len() != 0 {
			one.Fail(codec.ErrMalformed)
		}
		if one.Err() != nil {
			r.Fail(one.Err())
			break
		}
		cmds = append(cmds, c)
	}
	if r.Err() == nil && r.Len() != 0 {
		r.Fail(codec.ErrMalformed)
	}
	if r.Err() != nil {
		return cmds, fmt.Errorf("catalogue batch: %w", r.Err())
	}
	return cmds, nil
}

// AppendReplies appends the replies to the commands of one batch, in their order.
func AppendReplies(dst []byte, replies []Reply) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(replies)))
	for i := range replies {
		p := &replies[i]
		dst = codec.AppendUint8(dst, uint8(p.Reason))
		dst = codec.AppendUvarint(dst, p.ID)
		dst = codec.AppendUint8(dst, flags(p.Existed, p.More, false))
		dst = codec.AppendUvarint(dst, p.Count)
		dst = codec.AppendString(dst, p.Field)
		dst = codec.AppendString(dst, p.Received)
		dst = codec.AppendString(dst, p.Current)
		dst = codec.AppendString(dst, p.Detail)
	}
	return dst
}

// replyBytesMin is the length of the shortest encoded reply.
const replyBytesMin = 8

// DecodeReplies reads what AppendReplies made, appending to replies.
func DecodeReplies(src []byte, replies []Reply) ([]Reply, error) {
	r := codec.NewReader(src)
	for range r.Count(replyBytesMin) {
		p := Reply{Reason: Reason(r.Uint8()), ID: r.Uvarint()}
		f := decodeFlags(&r)
		p.Existed, p.More = f&1 != 0, f&2 != 0
		p.Count = r.Uvarint()
		p.Field, p.Received, p.Current, p.Detail = r.String(), r.String(), r.String(), r.String()
		replies = append(replies, p)
	}
	if r.Err() == nil && r.Len() != 0 {
		r.Fail(codec.ErrMalformed)
	}
	if r.Err() != nil {
		return replies, fmt.Errorf("catalogue replies: %w", r.Err())
	}
	return replies, nil
}
