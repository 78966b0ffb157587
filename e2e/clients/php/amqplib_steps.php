<?php
// What every client does (steps_test.go), with php-amqplib.

require_once 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPSSLConnection;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPConnectionClosedException;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const QUEUE = 'php-steps';
const KINDS = ['classic', 'quorum'];

function connect()
{
    $url = parse_url(getenv('AMQP_URL'));
    return new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass'], '/');
}

function same($got, $want)
{
    if ($got !== $want) {
        throw new Exception('got ' . json_encode($got) . ', want ' . json_encode($want));
    }
}

function fresh($channel, $kind = 'classic')
{
    $channel->queue_delete(QUEUE);
    $channel->queue_declare(QUEUE, false, true, false, false, false, new AMQPTable(['x-queue-type' => $kind]));
}

function publish($connection, ...$bodies)
{
    $channel = $connection->channel();
    $channel->confirm_select();
    $acked = 0;
    $channel->set_ack_handler(function () use (&$acked) {
        $acked++;
    });
    foreach ($bodies as $body) {
        $channel->basic_publish(new AMQPMessage($body, ['delivery_mode' => 2]), '', QUEUE);
    }
    $channel->wait_for_pending_acks(20);
    same($acked, count($bodies));
    $channel->close();
}

function ready($channel)
{
    return $channel->queue_declare(QUEUE, true)[1];
}

// drop closes the connection of a local address over the HTTP API: the library has no name for a connection.
function drop($local)
{
    $api = parse_url(getenv('AMQP_HTTP'));
    $call = function ($method, $path) use ($api) {
        $headers = 'Authorization: Basic ' . base64_encode("{$api['user']}:{$api['pass']}") . "\r\nX-Reason: made way";
        $context = stream_context_create(['http' => ['method' => $method, 'header' => $headers]]);
        return file_get_contents("http://{$api['host']}:{$api['port']}/api/connections$path", false, $context);
    };
    for ($i = 0; $i < 200; $i++) {
        foreach (json_decode($call('GET', ''), true) as $c) {
            if (strpos($c['name'], "$local -> ") === 0) {
                $call('DELETE', '/' . rawurlencode($c['name']));
                return;
            }
        }
        usleep(50000);
    }
    throw new Exception('the connection is not listed');
}

function step_connect()
{
    $connection = connect();
    same($connection->channel()->is_open(), true);
    $connection->close();
}

function step_tls()
{
    $url = parse_url(getenv('AMQPS_URL'));
    $options = ['cafile' => getenv('AMQP_CA'), 'verify_peer' => true, 'verify_peer_name' => true, 'peer_name' => 'localhost'];
    $connection = new AMQPSSLConnection($url['host'], $url['port'], $url['user'], $url['pass'], '/', $options);
    $channel = $connection->channel();
    $queue = $channel->queue_declare('', false, false, true)[0];
    $channel->confirm_select();
    $channel->basic_publish(new AMQPMessage('over TLS'), '', $queue);
    $channel->wait_for_pending_acks(20);
    same($channel->basic_get($queue, true)->body, 'over TLS');
    $connection->close();
}

function step_declare()
{
    $connection = connect();
    $channel = $connection->channel();
    $channel->exchange_declare(QUEUE, 'topic', false, true, false);
    foreach (KINDS as $kind) {
        fresh($channel, $kind);
        $channel->queue_bind(QUEUE, QUEUE, 'a.*');
        same(ready($channel), 0);
    }
    try {
        $connection->channel()->queue_declare(QUEUE, false, false, false, false);
        throw new Exception('a queue was declared with another durability');
    } catch (AMQPProtocolChannelException $e) {
        same($e->getCode(), 406);
    }
    $channel->queue_delete(QUEUE);
    $channel->exchange_delete(QUEUE);
    $connection->close();
}

function step_confirm()
{
    $connection = connect();
    $channel = $connection->channel();
    foreach (KINDS as $kind) {
        fresh($channel, $kind);
        publish($connection, ...array_map('strval', range(0, 9)));
        same(ready($channel), 10);
    }
    $connection->close();
}

function step_consume()
{
    $connection = connect();
    foreach (KINDS as $kind) {
        $channel = $connection->channel();
        fresh($channel, $kind);
        publish($connection, ...array_map('strval', range(0, 9)));
        $bodies = [];
        $channel->basic_consume(QUEUE, '', false, false, false, false, function ($m) use (&$bodies) {
            $bodies[] = $m->body;
            $m->ack();
        });
        while (count($bodies) < 10) {
            $channel->wait(null, false, 20);
        }
        same($bodies, array_map('strval', range(0, 9)));
        $channel->close();
    }
    $connection->close();
}

function step_qos()
{
    $connection = connect();
    foreach (KINDS as $kind) {
        $channel = $connection->channel();
        fresh($channel, $kind);
        publish($connection, 'a', 'b', 'c', 'd');
        $channel->basic_qos(0, 2, false);
        $got = [];
        $channel->basic_consume(QUEUE, '', false, false, false, false, function ($m) use (&$got) {
            $got[] = $m;
        });
        while (count($got) < 2) {
            $channel->wait(null, false, 20);
        }
        same([ready($channel), count($got)], [2, 2]);
        $got[0]->ack();
        while (count($got) < 3) {
            $channel->wait(null, false, 20);
        }
        same([ready($channel), count($got)], [1, 3]);
        $channel->close();
    }
    $connection->close();
}

function step_tx()
{
    $connection = connect();
    $channel = $connection->channel();
    fresh($channel);
    $channel->tx_select();
    $channel->basic_publish(new AMQPMessage('lost'), '', QUEUE);
    $channel->tx_rollback();
    $channel->basic_publish(new AMQPMessage('kept'), '', QUEUE);
    same(ready($channel), 0);
    $channel->tx_commit();
    $m = $channel->basic_get(QUEUE);
    same($m->body, 'kept');
    $m->ack();
    $channel->tx_commit();
    same(ready($channel), 0);
    $connection->close();
}

function step_nack()
{
    $connection = connect();
    $channel = $connection->channel();
    foreach (KINDS as $kind) {
        fresh($channel, $kind);
        publish($connection, 'x');
        $m = $channel->basic_get(QUEUE);
        same($m->isRedelivered(), false);
        $m->nack(true);
        $m = $channel->basic_get(QUEUE);
        same($m->isRedelivered(), true);
        $m->reject(false);
        same($channel->basic_get(QUEUE), null);
    }
    $connection->close();
}

function step_return()
{
    $connection = connect();
    $channel = $connection->channel();
    $channel->confirm_select();
    $returned = null;
    $channel->set_return_listener(function ($code, $text, $exchange, $key, $m) use (&$returned) {
        $returned = [$code, $text, $m->body];
    });
    $channel->basic_publish(new AMQPMessage('back'), 'amq.direct', 'nowhere', true);
    $channel->wait_for_pending_acks_returns(20);
    same($returned, [312, 'NO_ROUTE', 'back']);
    $connection->close();
}

function step_reconnect()
{
    $connection = connect();
    $channel = $connection->channel();
    fresh($channel);
    $channel->basic_consume(QUEUE, '', false, true, false, false, function () {
    });
    $socket = new ReflectionProperty(PhpAmqpLib\Wire\IO\StreamIO::class, 'sock');
    $socket->setAccessible(true);
    drop(stream_socket_get_name($socket->getValue($connection->getIO()), false));
    try {
        $channel->wait(null, false, 20);
        throw new Exception('the connection is open');
    } catch (AMQPConnectionClosedException $e) {
        same([$e->getCode(), strpos($e->getMessage(), 'made way') !== false], [320, true]);
    }
    $connection = connect();
    publish($connection, 'after');
    $channel = $connection->channel();
    same($channel->basic_get(QUEUE, true)->body, 'after');
    $channel->queue_delete(QUEUE);
    $connection->close();
}

foreach (array_slice($argv, 1) as $step) {
    ('step_' . $step)();
    echo "$step ok\n";
}
