"""A real Celery worker on durable queues of both types: results, tasks for later that raise the prefetch, retries, revocation, a lost connection."""
import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from celery.exceptions import TaskRevokedError

import celery_app as tasks

QUEUES = [q.name for q in tasks.app.conf.task_queues]
TIMEOUT = 20


def each(test):
    for queue in QUEUES:
        test(queue)


def step_results():
    def test(queue):
        results = [tasks.add.apply_async((i, 1), queue=queue) for i in range(20)]
        assert [r.get(timeout=TIMEOUT) for r in results] == list(range(1, 21))

    each(test)


def step_eta():
    def test(queue):
        due = time.time() + 1.5
        later = [tasks.now.apply_async(eta=None, countdown=1.5, queue=queue) for _ in range(6)]  # more than the worker's prefetch
        assert tasks.now.apply_async(queue=queue).get(timeout=TIMEOUT) < due, "tasks for later hold up others"
        assert all(r.get(timeout=TIMEOUT) >= due - 0.1 for r in later)
        assert tasks.add.apply_async((1, 1), queue=queue).get(timeout=TIMEOUT) == 2

    each(test)


def step_retry():
    def test(queue):
        assert tasks.third_time.apply_async(queue=queue).get(timeout=TIMEOUT) == 2

    each(test)


def step_revoke():
    def test(queue):
        result = tasks.now.apply_async(countdown=2, queue=queue)
        result.revoke()
        try:
            result.get(timeout=TIMEOUT)
            raise AssertionError("a revoked task ran")
        except TaskRevokedError:
            pass
        assert tasks.add.apply_async((1, 1), queue=queue).get(timeout=TIMEOUT) == 2

    each(test)


def step_reconnect():
    """The worker connects and consumes again when its connections are closed."""
    base = urllib.parse.urlsplit(os.environ["AMQP_HTTP"])
    root = f"{base.scheme}://{base.hostname}:{base.port}/api/"
    passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    passwords.add_password(None, root, base.username, base.password)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
    dropped = set()
    for _ in range(200):
        for c in json.load(opener.open(root + "consumers")):
            if c["queue"]["name"] in QUEUES:
                dropped.add(c["channel_details"]["connection_name"])
        if dropped:
            break
        time.sleep(0.05)
    assert dropped, "the worker's consumers are not listed"
    for name in dropped:
        opener.open(urllib.request.Request(root + "connections/" + urllib.parse.quote(name, safe=""), method="DELETE"))
    step_results()


worker = subprocess.Popen(
    [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--concurrency=2", "--loglevel=WARNING", "--hostname=steps@localhost"],
    cwd=os.path.dirname(os.path.abspath(__file__)), stdout=sys.stderr, env={**os.environ, "C_FORCE_ROOT": "1"}, start_new_session=True,
)
try:
    deadline = time.time() + TIMEOUT
    while not tasks.app.control.ping(timeout=0.5):
        assert time.time() < deadline and worker.poll() is None, "the worker does not answer"
    for step in sys.argv[1:]:
        globals()["step_" + step]()
        print(step, "ok", flush=True)
finally:
    os.killpg(worker.pid, signal.SIGKILL)  # a worker that is asked to stop may hang, which is not what is tested
    worker.wait(TIMEOUT)
