package management

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// dashboards are the metrics that RabbitMQ's overview dashboard and alerts ask for and that exist here.
const dashboards = `rabbitmq_build_info rabbitmq_identity_info rabbitmq_erlang_uptime_seconds rabbitmq_resident_memory_limit_bytes rabbitmq_process_resident_memory_bytes
rabbitmq_disk_space_available_bytes rabbitmq_disk_space_available_limit_bytes rabbitmq_process_max_fds rabbitmq_process_open_fds rabbitmq_queue_messages_ready
rabbitmq_queue_messages_unacked rabbitmq_queue_messages rabbitmq_queues rabbitmq_channels rabbitmq_connections rabbitmq_consumers rabbitmq_global_consumers
rabbitmq_global_messages_received_total rabbitmq_global_messages_received_confirm_total rabbitmq_global_messages_routed_total rabbitmq_global_messages_confirmed_total
rabbitmq_global_messages_unroutable_dropped_total rabbitmq_global_messages_unroutable_returned_total rabbitmq_global_messages_delivered_total
rabbitmq_global_messages_delivered_consume_auto_ack_total rabbitmq_global_messages_delivered_consume_manual_ack_total rabbitmq_global_messages_delivered_get_auto_ack_total
rabbitmq_global_messages_delivered_get_manual_ack_total rabbitmq_global_messages_redelivered_total rabbitmq_global_messages_acknowledged_total
rabbitmq_global_messages_get_empty_total rabbitmq_queues_declared_total rabbitmq_queues_created_total rabbitmq_queues_deleted_total rabbitmq_channels_opened_total
rabbitmq_channels_closed_total rabbitmq_connections_opened_total rabbitmq_connections_closed_total rabbitmq_alarms_free_disk_space_watermark
rabbitmq_alarms_memory_used_watermark rabbitmq_alarms_file_descriptor_limit warren_raft_groups warren_body_bytes_in_memory go_goroutines process_open_fds
go_memstats_heap_inuse_bytes go_memstats_last_gc_time_seconds`

func scrape(t *testing.T, h http.Handler, accept string) (body, contentType string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String(), w.Header().Get("Content-Type")
}

// values reads an exposition: name with labels to value.
func values(body string) map[string]string {
	out := make(map[string]string)
	for line := range strings.Lines(body) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		out[line[:i]] = line[i+1:]
	}
	return out
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.declare("a", "q1")
		f.declare("a", "q2")
		f.host.set("a", "q1", func(st *quorum.QueueStatus) {
			st.Counts.Ready, st.Counts.Unacked, st.Counts.Consumers, st.BodyBytesInMemory = 5, 2, 3, 700
			st.Counts.Duplicates, st.Counts.Rejected, st.Counts.TimedOut = 9, 8, 6
			st.Counts.Delayed, st.NextDelayedMillis = 3, fakeNowMillis+90_500
		})
		f.host.delayedExchange("a", "later")
		f.host.set("a", "later", func(st *quorum.QueueStatus) { st.Counts.Delayed, st.NextDelayedMillis = 4, fakeNowMillis+60_250 })
		f.setTotals([]string{"published=10", "delivered=4", "connections=6"})
		time.Sleep(samplePeriod + time.Millisecond)
		synctest.Wait()
		// Both ports have the same metrics, but for what the Go runtime counts meanwhile.
		for _, h := range []http.Handler{f.handler, f.s.MetricsHandler()} {
			body, contentType := scrape(t, h, "")
			if !strings.HasPrefix(contentType, "text/plain") {
				t.Error("content type", contentType)
			}
			got := values(body)
			for _, name := range strings.Fields(dashboards) {
				if !strings.Contains(body, "\n"+name+" ") && !strings.Contains(body, "\n"+name+"{") {
					t.Errorf("%s is missing", name)
				}
			}
			for name, want := range map[string]string{
				"rabbitmq_queue_messages_ready": "5", "rabbitmq_queue_messages_unacked": "2", "rabbitmq_queue_messages": "7", "rabbitmq_queues": "2", "rabbitmq_consumers": "3",
				"rabbitmq_connections": "6", `rabbitmq_global_messages_received_total{protocol="amqp091"}`: "10",
				`rabbitmq_global_messages_delivered_consume_manual_ack_total{protocol="amqp091",queue_type="rabbit_quorum_queue"}`: "4",
				`warren_raft_groups{state="running"}`: "1", `warren_raft_groups{state="parked"}`: "1", "warren_body_bytes_in_memory": "700", "warren_queue_duplicates_dropped_total": "9",
				"warren_queue_publishes_rejected_total": "8", "warren_queue_deliveries_timed_out_total": "6",
				"warren_messages_delayed": "7", "warren_messages_delayed_next_seconds": "60.25", "warren_messages_delayed_lag_seconds": "0", "warren_messages_delayed_unroutable_total": "6", "warren_dead_letters_lost_total": "8",
				"warren_wal_syncs_total": "4", "warren_wal_commits_total": "7", "warren_wal_bytes_total": "4000", "warren_wal_copied_bytes_total": "30", "warren_wal_longest_sync_seconds": "0.0015",
				"warren_wal_files": "2", "warren_wal_file_bytes": "2000",
				`rabbitmq_identity_info{rabbitmq_cluster="test",rabbitmq_cluster_permanent_id="0123",rabbitmq_endpoint="aggregated",rabbitmq_node="rabbit@test"}`: "1",
			} {
				if got[name] != want {
					t.Errorf("%s is %q, want %s", name, got[name], want)
				}
			}
		}
		f.host.set("a", "later", func(st *quorum.QueueStatus) { st.NextDelayedMillis = fakeNowMillis - 1500 })
		pass(samplePeriod)
		overdue, _ := scrape(t, f.handler, "")
		if got := values(overdue); got["warren_messages_delayed_next_seconds"] != "0" || got["warren_messages_delayed_lag_seconds"] != "1.5" {
			t.Errorf("one is overdue by %s seconds, and due in %s", got["warren_messages_delayed_lag_seconds"], got["warren_messages_delayed_next_seconds"])
		}
		// Prometheus itself asks for OpenMetrics.
		body, contentType := scrape(t, f.handler, "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1")
		if !strings.HasPrefix(contentType, "application/openmetrics-text") || !strings.HasSuffix(body, "# EOF\n") {
			t.Error("no OpenMetrics:", contentType)
		}
	})
}

// TestMetricsWithStrangeNames: a name that is no UTF-8 does not end the scrape.
func TestMetricsWithStrangeNames(t *testing.T) {
	f := newFixture(t)
	f.host.apply(meta.Command{Op: meta.OpSetClusterName, Name: "\xff\"\n"})
	body, _ := scrape(t, f.handler, "")
	if !strings.Contains(body, `rabbitmq_cluster="`+"\ufffd"+`\"\n"`) {
		t.Error(body[strings.Index(body, "rabbitmq_identity_info"):][:300])
	}
}

func TestMetricsPort(t *testing.T) {
	f := newFixture(t)
	for path, want := range map[string]int{"/metrics": 200, "/livez": 200, "/readyz": 200, "/": 404, "/api/overview": 404} {
		w := httptest.NewRecorder()
		f.s.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

func TestReady(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Ready = func() error { return io.ErrNoProgress }
	})
	f.host.lacks = []quorum.NodeAlarms{{Node: f.host.id, Lack: alarm.Disk | alarm.DiskFull}}
	f.want(f.do("-", http.MethodGet, "/livez", ""), 200, `{"status":"ok"}`)
	f.want(f.do("-", http.MethodGet, "/readyz", ""), 503, `{"status":"failed","reason":"multiple Read calls return no data or error"}`)
	f.want(f.do("guest", http.MethodGet, "/api/health/checks/alarms", ""), 503, `"alarms":[{"node":"rabbit@test","resource":"disk space"}]`)
	f.want(f.do("guest", http.MethodGet, "/api/nodes/rabbit@test?columns=disk_free_alarm,mem_alarm", ""), 200, `{"mem_alarm":false,"disk_free_alarm":true}`)
	if body, _ := scrape(t, f.handler, ""); values(body)["rabbitmq_alarms_free_disk_space_watermark"] != "1" {
		t.Error("the alarm is no metric")
	}
}

// TestSetNodeLimits: limits are set by the keys and the values of the configuration, on the node that the path names.
func TestSetNodeLimits(t *testing.T) {
	w := &fakeWatch{}
	f := newFixture(t, func(o *Options) { o.Watch = w })
	put := func(user, body string) *httptest.ResponseRecorder {
		return f.do(user, http.MethodPut, "/api/nodes/rabbit@test/limits", body)
	}
	f.want(put("guest", `{"vm_memory_high_watermark.relative":0.4,"disk_free_limit.absolute":"2GB"}`), 204, "")
	if w.memoryHigh != alarm.Relative(0.4) || w.diskFree != alarm.Absolute(2e9) {
		t.Errorf("set %+v %+v", w.memoryHigh, w.diskFree)
	}
	f.want(put("guest", `{"disk_free_limit.relative":"1.5"}`), 204, "")
	if w.memoryHigh != alarm.Relative(0.4) || w.diskFree != alarm.Relative(1.5) {
		t.Errorf("set %+v %+v", w.memoryHigh, w.diskFree)
	}
	f.want(put("guest", `{"disk_free_limit.relative":"-1"}`), 400, `disk_free_limit.relative: \"-1\" is not a fraction`)
	f.want(put("guest", `{"disk_free_limit":"1"}`), 400, "is needed")
	f.want(put("guest", `{"disk_free_limit.absolute":"1\ndata_dir=x"}`), 400, "is no number")
	f.want(f.do("guest", http.MethodPut, "/api/nodes/nowhere/limits", `{"disk_free_limit.absolute":1}`), 404, "")
	f.want(f.do("mon", http.MethodPut, "/api/nodes/rabbit@test/limits", `{"disk_free_limit.absolute":1}`), 401, "")
	if w.diskFree != alarm.Relative(1.5) {
		t.Error("a refused request set a limit")
	}
}

func TestConnectionLimitCheck(t *testing.T) {
	const path = "/api/health/checks/below-node-connection-limit"
	f := newFixture(t)
	f.want(f.do("guest", http.MethodGet, path, ""), 200, `"limit":"infinity"`)
	f = newFixture(t, func(o *Options) { o.ConnectionMax = 1 })
	f.want(f.do("guest", http.MethodGet, path, ""), 200, `{"status":"ok","connections":0,"limit":1}`)
	f.broker.mu.Lock()
	f.broker.totals.ConnectionsOpened = 1
	f.broker.mu.Unlock()
	f.s.sampler.tick(time.Now())
	f.want(f.do("guest", http.MethodGet, path, ""), 503, `{"status":"failed","reason":"node connection limit is reached","connections":1,"limit":1}`)
}
