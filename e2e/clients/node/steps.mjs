// What both programs share: a way to the HTTP API, a deadline, and the list of steps.
import assert from 'node:assert/strict'
import fs from 'node:fs'

export const url = process.env.AMQP_URL
export const tlsURL = process.env.AMQPS_URL
export const ca = () => fs.readFileSync(process.env.AMQP_CA)
export const kinds = ['classic', 'quorum']

/** within fails when what it waits for does not come. */
export function within(promise, what) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what}`)), 20_000)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

/** drop closes the connection of a name over the HTTP API. */
export async function drop(name) {
  const api = new URL(process.env.AMQP_HTTP)
  const headers = { authorization: 'Basic ' + btoa(`${api.username}:${api.password}`), 'x-reason': 'made way' }
  const root = `http://${api.host}/api/connections`
  for (let i = 0; i < 200; i++) {
    const found = (await (await fetch(root, { headers })).json()).find((c) => c.client_properties?.connection_name === name)
    if (found) {
      const answer = await fetch(`${root}/${encodeURIComponent(found.name)}`, { method: 'DELETE', headers })
      assert.equal(answer.status, 204)
      return
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error('the connection is not listed')
}

/** run does the steps that the command line names. */
export async function run(steps) {
  for (const name of process.argv.slice(2)) {
    await steps[name]()
    console.log(name, 'ok')
  }
}
