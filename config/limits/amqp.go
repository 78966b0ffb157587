package limits

// Bounds of one AMQP connection. The reply code that a client sees beyond a bound stands in its comment.
const (
	// HandshakeTimeoutMillis is the default of key handshake_timeout: from accept to connection.open-ok, else the socket is closed.
	// Used by config.
	HandshakeTimeoutMillis = 10_000

	// HeaderTimeoutMillis is how long a new connection may take to send its 8 octets of protocol header. Used by broker.
	HeaderTimeoutMillis = 2_000

	// CloseTimeoutMillis is how long the broker waits for connection.close-ok before it drops the socket. Used by broker.
	CloseTimeoutMillis = 30_000

	// FrameStallMillis is how long a started frame may take to arrive whole, and a write to make progress. Used by broker.
	FrameStallMillis = 30_000

	// HeartbeatSeconds is the default of key heartbeat: what the broker proposes in connection.tune. Used by config.
	HeartbeatSeconds = 60

	// FrameBytesMax is the default of key frame_max: the largest frame with its 8 octets of frame overhead. Beyond it: 501. Used by config and amqp.
	FrameBytesMax = 131_072

	// FrameBytesMin is the smallest frame_max that a client may ask for. Below it: 530. Used by config and broker.
	FrameBytesMin = 4_096

	// FrameBytesCeiling is the largest value that key frame_max takes. Used by config.
	FrameBytesCeiling = 16 << 20

	// FrameBytesSlack is by how much a frame may exceed frame_max, as some clients count the frame overhead out. Used by amqp.
	FrameBytesSlack = 8

	// UntunedFrameBytesMax is the default of key initial_frame_max: the largest frame before connection.tune-ok. Beyond it: 501. Used by config.
	UntunedFrameBytesMax = 8_192

	// ChannelMax is the default of key channel_max: open channels of one connection. Beyond it: 530. Used by config.
	ChannelMax = 2_047

	// ChannelCeiling is the largest value that key channel_max takes: channel numbers have 16 bits. Used by config.
	ChannelCeiling = 65_535

	// ConsumersPerChannelMax is the default of key consumer_max_per_channel. Beyond it: 530. Used by config.
	ConsumersPerChannelMax = 1_024

	// BodyBytesMax is the default of key max_message_size. Beyond it: 406, at the content header. Used by config.
	BodyBytesMax = 16 << 20

	// BodyBytesCeiling is the largest value that key max_message_size takes. Used by config.
	BodyBytesCeiling = 128 << 20

	// InflightBodyBytesMax bounds the bodies of one connection that have begun and not ended; beyond it: 506. Used by broker.
	InflightBodyBytesMax = 32 << 20

	// UnconfirmedBytesMax bounds the bytes of one connection's publishes that are not answered; beyond it its socket is not read. Used by broker.
	UnconfirmedBytesMax = 16 << 20

	// UnconfirmedPublishesMax bounds the same by count. Used by broker.
	UnconfirmedPublishesMax = 32_768

	// ReplyBacklogBytesMax bounds what may wait to be written to a connection when a direct reply comes for it; beyond it the reply is dropped. Used by broker.
	ReplyBacklogBytesMax = 8 << 20

	// ReplyBetweenNodesBytesMax is the largest direct reply that goes to another node, with its properties; a larger one is dropped. A frame of a link takes it. Used by broker.
	ReplyBetweenNodesBytesMax = LinkFrameBytesMax - 1024

	// TxBytesMax bounds what one connection holds for transactions that are not committed, a copy for every queue; beyond it: 406. Used by broker.
	TxBytesMax = 32 << 20

	// ConnectionWindowBytes is the byte budget of deliveries on their way to one connection; its consumers' windows share it. Used by broker.
	ConnectionWindowBytes = 8 << 20

	// ChannelUnackedPercent is how much of the memory limit the bodies may take that one channel has to acknowledge, and ChannelUnackedBytesMin what they may take in any case. Beyond it the
	// channel's consumers get no more until it acknowledges; one message for each may exceed it. Used by internal/node.
	ChannelUnackedPercent  = 25
	ChannelUnackedBytesMin = 16 << 20
	// NoticesMax bounds the events and traced messages that wait to be published to amq.rabbitmq.event and amq.rabbitmq.trace; beyond it they are dropped and counted. Used by broker.
	NoticesMax = 4_096

	// LossesMax bounds the queues whose lost dead letters are told of in events; of more there is no event while as many lose some. Used by broker.
	LossesMax = 1_024

	// NoticeBytesMax bounds the same by the bytes of messages that wait or that their queues have not answered. Used by broker.
	NoticeBytesMax = 16 << 20

	// NoticesUnansweredMax bounds copies of events and traced messages that their queues have not answered; beyond it further ones wait. Used by broker.
	NoticesUnansweredMax = 1_024

	// UnauthenticatedConnectionsMax bounds connections that have not finished their handshake; beyond it the newest is closed. Used by broker.
	UnauthenticatedConnectionsMax = 4_096
)

// Open files that a node keeps for itself, which connection_max leaves alone unless configured: one in OwnFilesShare of the limit, and at least OwnFiles or half of it. Used by internal/node.
const (
	OwnFilesShare = 10
	OwnFiles      = 256
)

// Bounds of values on the wire.
const (
	// ShortStringBytesMax is the longest short string: names, routing keys, consumer tags. Its length is one octet. Used by amqp and meta.
	ShortStringBytesMax = 255

	// TableDepthMax bounds how deep field tables and arrays nest. Beyond it: 502. Used by amqp.
	TableDepthMax = 16

	// TableEntriesMax bounds the entries of one field table with all that it holds. Beyond it: 502. Used by amqp.
	TableEntriesMax = 16_384

	// DecimalScaleMax is the largest scale of a decimal field. Beyond it: 502. Used by amqp.
	DecimalScaleMax = 28

	// DeathsMax bounds the deaths that a message remembers, one for each queue and reason; the oldest goes. Used by message.
	DeathsMax = 100
)
