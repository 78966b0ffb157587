package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

// pageItems is the size of a page of a list: the largest that RabbitMQ allows.
const pageItems = 500

// List fetches every page of a list and hands the items on, one call per page, each item as the broker sent it. So the memory needed does not
// grow with the list. A broker that ignores paging and answers with the whole array is understood.
func (c *Client) List(ctx context.Context, path string, query url.Values, each func(items []json.RawMessage) error) error {
	q := url.Values{}
	for k, v := range query {
		q[k] = v
	}
	q.Set("page_size", strconv.Itoa(pageItems))
	for page := 1; ; page++ {
		q.Set("page", strconv.Itoa(page))
		body, err := c.Get(ctx, path, q)
		var failure *Error
		if page > 1 && errors.As(err, &failure) && failure.Status == http.StatusBadRequest {
			return nil // the list became shorter while it was read: this page is past its end now
		}
		if err != nil {
			return err
		}
		var answer struct {
			Items     []json.RawMessage `json:"items"`
			PageCount int               `json:"page_count"`
		}
		var whole []json.RawMessage
		if json.Unmarshal(body, &whole) == nil {
			return each(whole)
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return exit.Errorf(exit.Internal, "the answer is not what the management API sends: %w", err)
		}
		if err := each(answer.Items); err != nil {
			return err
		}
		if page >= answer.PageCount || len(answer.Items) == 0 {
			return nil
		}
	}
}
