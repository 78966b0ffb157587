// What every client does (steps_test.go), with amqplib.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import amqplib from 'amqplib'
import { ca, drop, kinds, run, tlsURL, url, within } from './steps.mjs'

const queue = 'amqplib-steps'

async function connected(test, name) {
  const connection = await amqplib.connect(url, name && { clientProperties: { connection_name: name } })
  await test(connection)
  await connection.close()
}

async function fresh(channel, kind = 'classic') {
  await channel.deleteQueue(queue)
  await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': kind } })
}

async function publish(connection, ...bodies) {
  const channel = await connection.createConfirmChannel()
  for (const body of bodies) channel.sendToQueue(queue, Buffer.from(body), { persistent: true })
  await channel.waitForConfirms()
  await channel.close()
}

async function count(channel) {
  return (await channel.checkQueue(queue)).messageCount
}

await run({
  connect: () => connected(async (c) => void (await c.createChannel())),

  async tls() {
    const connection = await amqplib.connect(tlsURL, { ca: [ca()], servername: 'localhost' })
    const channel = await connection.createConfirmChannel()
    const q = await channel.assertQueue('', { exclusive: true })
    channel.sendToQueue(q.queue, Buffer.from('over TLS'))
    await channel.waitForConfirms()
    assert.equal((await channel.get(q.queue, { noAck: true })).content.toString(), 'over TLS')
    await connection.close()
  },

  declare: () =>
    connected(async (connection) => {
      const channel = await connection.createChannel()
      await channel.assertExchange('amqplib-exchange', 'topic')
      for (const kind of kinds) {
        await fresh(channel, kind)
        await channel.bindQueue(queue, 'amqplib-exchange', 'a.*')
        assert.equal(await count(channel), 0)
      }
      const other = await connection.createChannel()
      other.on('error', () => {})
      await assert.rejects(other.assertQueue(queue, { durable: false }), /406.*inequivalent arg 'durable'/s)
      await channel.deleteQueue(queue)
      await channel.deleteExchange('amqplib-exchange')
    }),

  confirm: () =>
    connected(async (connection) => {
      const channel = await connection.createChannel()
      for (const kind of kinds) {
        await fresh(channel, kind)
        await publish(connection, ...'0123456789')
        assert.equal(await count(channel), 10)
      }
    }),

  consume: () =>
    connected(async (connection) => {
      for (const kind of kinds) {
        const channel = await connection.createChannel()
        await fresh(channel, kind)
        await publish(connection, ...'0123456789')
        const bodies = await within(
          new Promise((resolve) => {
            const got = []
            channel.consume(queue, (m) => {
              channel.ack(m)
              if (got.push(m.content.toString()) === 10) resolve(got)
            })
          }),
          'ten messages',
        )
        assert.deepEqual(bodies, [...'0123456789'])
        await channel.close()
      }
    }),

  qos: () =>
    connected(async (connection) => {
      for (const kind of kinds) {
        const channel = await connection.createChannel()
        await fresh(channel, kind)
        await publish(connection, 'a', 'b', 'c', 'd')
        await channel.prefetch(2)
        const got = []
        let more = () => {}
        await channel.consume(queue, (m) => {
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
        channel.ack(got[0])
        await until(3)
        assert.equal(await count(channel), 1)
        assert.equal(got.length, 3)
        await channel.close()
      }
    }),

  // amqplib has no transactions.
  async tx() {},

  nack: () =>
    connected(async (connection) => {
      const channel = await connection.createChannel()
      for (const kind of kinds) {
        await fresh(channel, kind)
        await publish(connection, 'x')
        const first = await channel.get(queue)
        assert.equal(first.fields.redelivered, false)
        channel.nack(first)
        const again = await channel.get(queue)
        assert.equal(again.fields.redelivered, true)
        channel.reject(again, false)
        assert.equal(await channel.get(queue), false)
      }
    }),

  return: () =>
    connected(async (connection) => {
      const channel = await connection.createConfirmChannel()
      const returned = once(channel, 'return')
      channel.publish('amq.direct', 'nowhere', Buffer.from('back'), { mandatory: true })
      const [message] = await within(returned, 'return')
      assert.deepEqual([message.fields.replyCode, message.fields.replyText, message.content.toString()], [312, 'NO_ROUTE', 'back'])
      await channel.waitForConfirms()
    }),

  async reconnect() {
    const lost = await amqplib.connect(url, { clientProperties: { connection_name: queue } })
    await fresh(await lost.createChannel())
    const closed = once(lost, 'close') // to amqplib an operator's close is no error
    await drop(queue)
    const [error] = await within(closed, 'close')
    assert.equal(error.code, 320)
    assert.match(error.message, /made way/)
    await connected(async (connection) => {
      await publish(connection, 'after')
      const channel = await connection.createChannel()
      assert.equal((await channel.get(queue, { noAck: true })).content.toString(), 'after')
      await channel.deleteQueue(queue)
    })
  },
})
