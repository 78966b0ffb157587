// What every client does (steps_test.go), with rabbitmq-client.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Connection } from 'rabbitmq-client'
import { ca, drop, kinds, run, tlsURL, url, within } from './steps.mjs'

const queue = 'rabbitmq-client-steps'

async function connected(test, options = {}) {
  const rabbit = new Connection({ url, ...options })
  rabbit.on('error', () => {})
  await rabbit.onConnect(20_000)
  await test(rabbit)
  await rabbit.close()
}

async function fresh(rabbit, kind = 'classic') {
  await rabbit.queueDelete(queue)
  await rabbit.queueDeclare({ queue, durable: true, arguments: { 'x-queue-type': kind } })
}

// declared is how a consumer of the library declares its queue.
function declared(kind) {
  return { queue, queueOptions: { durable: true, arguments: { 'x-queue-type': kind } } }
}

async function publish(rabbit, ...bodies) {
  const publisher = rabbit.createPublisher({ confirm: true })
  for (const body of bodies) await publisher.send({ routingKey: queue, durable: true }, body)
  await publisher.close()
}

async function count(rabbit) {
  return (await rabbit.queueDeclare({ queue, passive: true })).messageCount
}

await run({
  connect: () => connected(async (rabbit) => assert.ok(rabbit.ready)),

  tls: () =>
    connected(
      async (rabbit) => {
        const channel = await rabbit.acquire()
        const q = await channel.queueDeclare({ exclusive: true })
        await channel.confirmSelect()
        await channel.basicPublish({ routingKey: q.queue }, 'over TLS')
        assert.equal((await channel.basicGet({ queue: q.queue, noAck: true })).body, 'over TLS')
        await channel.close()
      },
      { url: tlsURL, tls: process.env.AMQP_CA && { ca: ca(), servername: 'localhost' } },
    ),

  declare: () =>
    connected(async (rabbit) => {
      await rabbit.exchangeDeclare({ exchange: queue, type: 'topic', durable: true })
      for (const kind of kinds) {
        await fresh(rabbit, kind)
        await rabbit.queueBind({ exchange: queue, queue, routingKey: 'a.*' })
        assert.equal(await count(rabbit), 0)
      }
      await assert.rejects(rabbit.queueDeclare({ queue, durable: false }), { code: 'PRECONDITION_FAILED' })
      await rabbit.queueDelete(queue)
      await rabbit.exchangeDelete({ exchange: queue })
    }),

  confirm: () =>
    connected(async (rabbit) => {
      for (const kind of kinds) {
        await fresh(rabbit, kind)
        await publish(rabbit, ...'0123456789')
        assert.equal(await count(rabbit), 10)
      }
    }),

  consume: () =>
    connected(async (rabbit) => {
      for (const kind of kinds) {
        await fresh(rabbit, kind)
        await publish(rabbit, ...'0123456789')
        const got = []
        let consumer
        await within(
          new Promise((resolve) => {
            consumer = rabbit.createConsumer({ ...declared(kind), qos: { prefetchCount: 1 } }, async (m) => {
              if (got.push(m.body) === 10) resolve()
            })
          }),
          'ten messages',
        )
        await consumer.close()
        assert.deepEqual(got, [...'0123456789'])
        assert.equal(await count(rabbit), 0)
      }
    }),

  qos: () =>
    connected(async (rabbit) => {
      for (const kind of kinds) {
        await fresh(rabbit, kind)
        await publish(rabbit, 'a', 'b', 'c', 'd')
        const channel = await rabbit.acquire()
        await channel.basicQos({ prefetchCount: 2 })
        const got = []
        let more = () => {}
        await channel.basicConsume({ queue }, (m) => {
          got.push(m)
          more()
        })
        const until = (n) =>
          within(
            new Promise((resolve) => {
              more = () => got.length >= n && resolve()
              more()
            }),
            `${n} messages`,
          )
        await until(2)
        assert.equal(await count(channel), 2)
        assert.equal(got.length, 2)
        channel.basicAck({ deliveryTag: got[0].deliveryTag })
        await until(3)
        assert.equal(await count(channel), 1)
        await channel.close()
      }
    }),

  tx: () =>
    connected(async (rabbit) => {
      await fresh(rabbit)
      const channel = await rabbit.acquire()
      await channel.txSelect()
      await channel.basicPublish({ routingKey: queue }, 'lost')
      await channel.txRollback()
      await channel.basicPublish({ routingKey: queue }, 'kept')
      assert.equal(await count(rabbit), 0)
      await channel.txCommit()
      const m = await channel.basicGet(queue)
      assert.equal(m.body, 'kept')
      channel.basicAck({ deliveryTag: m.deliveryTag })
      await channel.txCommit()
      await channel.close()
      assert.equal(await count(rabbit), 0)
    }),

  nack: () =>
    connected(async (rabbit) => {
      const channel = await rabbit.acquire()
      for (const kind of kinds) {
        await fresh(rabbit, kind)
        await publish(rabbit, 'x')
        const first = await channel.basicGet(queue)
        assert.equal(first.redelivered, false)
        channel.basicNack({ deliveryTag: first.deliveryTag, requeue: true })
        const again = await channel.basicGet(queue)
        assert.equal(again.redelivered, true)
        channel.basicNack({ deliveryTag: again.deliveryTag, requeue: false })
        assert.equal(await channel.basicGet(queue), undefined)
      }
      await channel.close()
    }),

  return: () =>
    connected(async (rabbit) => {
      const channel = await rabbit.acquire()
      await channel.confirmSelect()
      const returned = once(channel, 'basic.return')
      await channel.basicPublish({ exchange: 'amq.direct', routingKey: 'nowhere', mandatory: true }, 'back')
      const [m] = await within(returned, 'return')
      assert.deepEqual([m.replyCode, m.replyText, m.body], [312, 'NO_ROUTE', 'back'])
      await channel.close()
    }),

  // The library connects and consumes again by itself.
  reconnect: () =>
    connected(
      async (rabbit) => {
        await fresh(rabbit)
        const got = []
        let more = () => {}
        const consumer = rabbit.createConsumer(declared('classic'), async (m) => {
          got.push(m.body)
          more()
        })
        await within(once(consumer, 'ready'), 'consumer')
        const failed = once(rabbit, 'error').catch((e) => [e])
        const again = once(rabbit, 'connection').catch(() => once(rabbit, 'connection'))
        await drop(queue)
        const [error] = await within(failed, 'error')
        assert.equal(error.code, 'CONNECTION_FORCED')
        await within(again, 'connection')
        const came = new Promise((resolve) => (more = resolve))
        await publish(rabbit, 'after')
        await within(came, 'message')
        assert.deepEqual(got, ['after'])
        await consumer.close()
        await rabbit.queueDelete(queue)
      },
      { connectionName: queue, retryLow: 50 },
    ),
})
