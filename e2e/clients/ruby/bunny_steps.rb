# What every client does (steps_test.go), with bunny.
require "bunny"
require "json"
require "net/http"
require "uri"

QUEUE = "bunny-steps"
KINDS = %w[classic quorum]

# To bunny a URL that ends with a slash names the virtual host "".
def connected(name: nil)
  connection = Bunny.new(ENV["AMQP_URL"].delete_suffix("/"), connection_name: name, recover_from_connection_close: true, network_recovery_interval: 0.1, log_level: :fatal)
  connection.start
  yield connection
  connection.close
end

# fresh declares the queue anew; the channel must be new, for bunny keeps what a channel declared.
def fresh(channel, kind = "classic")
  channel.queue_delete(QUEUE)
  channel.queue(QUEUE, durable: true, arguments: { "x-queue-type" => kind })
end

def publish(connection, *bodies)
  channel = connection.create_channel
  channel.confirm_select
  bodies.each { |body| channel.default_exchange.publish(body, routing_key: QUEUE, persistent: true) }
  check(channel.wait_for_confirms, "a publish was not confirmed")
  channel.close
end

def check(ok, what)
  raise what unless ok
end

def same(got, want)
  check(got == want, "got #{got.inspect}, want #{want.inspect}")
end

def eventually(what)
  400.times do
    return if yield

    sleep 0.05
  end
  raise "no #{what}"
end

# drop closes the connection of a name over the HTTP API.
def drop(name)
  api = URI(ENV["AMQP_HTTP"])
  Net::HTTP.start(api.host, api.port) do |http|
    call = lambda do |request|
      request.basic_auth(api.user, api.password)
      request["X-Reason"] = "made way"
      http.request(request)
    end
    200.times do
      found = JSON.parse(call.(Net::HTTP::Get.new("/api/connections")).body).find { |c| c.dig("client_properties", "connection_name") == name }
      unless found
        sleep 0.05
        next
      end

      return same(call.(Net::HTTP::Delete.new("/api/connections/" + URI.encode_www_form_component(found["name"]).gsub("+", "%20"))).code, "204")
    end
  end
  raise "the connection is not listed"
end

def step_connect
  connected { |connection| check(connection.create_channel.open?, "no channel") }
end

def step_tls
  connection = Bunny.new(ENV["AMQPS_URL"].delete_suffix("/"), tls: true, tls_ca_certificates: [ENV["AMQP_CA"]], verify_peer: true, tls_silence_warnings: true)
  connection.start
  channel = connection.create_channel
  queue = channel.queue("", exclusive: true)
  channel.confirm_select
  queue.publish("over TLS")
  check(channel.wait_for_confirms, "a publish was not confirmed")
  same(queue.pop[2], "over TLS")
  connection.close
end

def step_declare
  connected do |connection|
    exchange = connection.create_channel.topic(QUEUE, durable: true)
    KINDS.each do |kind|
      queue = fresh(connection.create_channel, kind)
      queue.bind(exchange, routing_key: "a.*")
      same(queue.message_count, 0)
    end
    begin
      connection.create_channel.queue(QUEUE, durable: false)
      raise "a queue was declared with another durability"
    rescue Bunny::PreconditionFailed => e
      check(e.message.include?("inequivalent arg 'durable'"), e.message)
    end
    connection.create_channel.queue_delete(QUEUE)
    exchange.delete
  end
end

def step_confirm
  connected do |connection|
    KINDS.each do |kind|
      queue = fresh(connection.create_channel, kind)
      publish(connection, *("0".."9"))
      same(queue.message_count, 10)
    end
  end
end

def step_consume
  connected do |connection|
    KINDS.each do |kind|
      channel = connection.create_channel
      queue = fresh(channel, kind)
      publish(connection, *("0".."9"))
      bodies = []
      queue.subscribe(manual_ack: true) do |delivery, _, body|
        bodies << body
        channel.ack(delivery.delivery_tag)
      end
      eventually("ten messages") { bodies.size >= 10 }
      same(bodies, ("0".."9").to_a)
      channel.close
    end
  end
end

def step_qos
  connected do |connection|
    KINDS.each do |kind|
      channel = connection.create_channel
      queue = fresh(channel, kind)
      publish(connection, "a", "b", "c", "d")
      channel.prefetch(2)
      tags = []
      queue.subscribe(manual_ack: true) { |delivery, _, _| tags << delivery.delivery_tag }
      eventually("two messages") { tags.size >= 2 }
      same([queue.message_count, tags.size], [2, 2])
      channel.ack(tags[0])
      eventually("another message") { tags.size >= 3 }
      same([queue.message_count, tags.size], [1, 3])
      channel.close
    end
  end
end

def step_tx
  connected do |connection|
    channel = connection.create_channel
    queue = fresh(channel)
    channel.tx_select
    queue.publish("lost")
    channel.tx_rollback
    queue.publish("kept")
    same(queue.message_count, 0)
    channel.tx_commit
    delivery, _, body = queue.pop(manual_ack: true)
    same(body, "kept")
    channel.ack(delivery.delivery_tag)
    channel.tx_commit
    same(queue.message_count, 0)
  end
end

def step_nack
  connected do |connection|
    KINDS.each do |kind|
      channel = connection.create_channel
      queue = fresh(channel, kind)
      publish(connection, "x")
      delivery, = queue.pop(manual_ack: true)
      same(delivery.redelivered?, false)
      channel.nack(delivery.delivery_tag, false, true)
      delivery, = queue.pop(manual_ack: true)
      same(delivery.redelivered?, true)
      channel.reject(delivery.delivery_tag, false)
      same(queue.pop, [nil, nil, nil])
    end
  end
end

def step_return
  connected do |connection|
    channel = connection.create_channel
    channel.confirm_select
    returned = nil
    exchange = channel.direct("amq.direct", durable: true)
    exchange.on_return { |info, _, body| returned = [info.reply_code, info.reply_text, body] }
    exchange.publish("back", routing_key: "nowhere", mandatory: true)
    channel.wait_for_confirms
    eventually("return") { returned }
    same(returned, [312, "NO_ROUTE", "back"])
  end
end

# Bunny connects and consumes again by itself.
def step_reconnect
  connected(name: QUEUE) do |connection|
    channel = connection.create_channel
    queue = fresh(channel)
    bodies = []
    queue.subscribe { |_, _, body| bodies << body }
    lost = channel.connection.transport
    drop(QUEUE)
    eventually("new connection") { connection.transport != lost && connection.open? && channel.open? }
    connected { |other| publish(other, "after") }
    eventually("message") { bodies.any? }
    same(bodies, ["after"])
    channel.queue_delete(QUEUE)
  end
end

ARGV.each do |step|
  send("step_" + step)
  puts "#{step} ok"
  $stdout.flush
end
