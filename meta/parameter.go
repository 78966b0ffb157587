package meta

import (
	"iter"

	"github.com/warrenmq/warren/internal/codec"
)

// Parameter is a setting of a component in one virtual host, as RabbitMQ's plugins have them: the catalogue keeps it, and what it means is the component's.
type Parameter struct {
	VHost, Component, Name string
	// Value is a JSON text of at most ParameterBytesMax bytes.
	Value string
}

// parameterKey orders the parameters of a virtual host by component and name.
func parameterKey(component, name string) string { return string(appendPart(nil, component)) + name }

// GlobalParameter returns the JSON text of a global parameter, and whether it is set.
func (v *View) GlobalParameter(name string) (string, bool) { return v.parameters.Get(name) }

// GlobalParameters yields names and JSON texts of the global parameters.
func (v *View) GlobalParameters() iter.Seq2[string, string] { return v.parameters.All() }

// Parameter returns a parameter of a component in a virtual host, nil if there is none.
func (v *View) Parameter(vhostName, component, name string) *Parameter {
	if h, ok := v.vhosts.Get(vhostName); ok {
		p, _ := h.parameters.Get(parameterKey(component, name))
		return p
	}
	return nil
}

// Parameters yields the parameters of a virtual host by component and name.
func (v *View) Parameters(vhostName string) iter.Seq[*Parameter] {
	return func(yield func(*Parameter) bool) {
		h, ok := v.vhosts.Get(vhostName)
		if !ok {
			return
		}
		for _, p := range h.parameters.All() {
			if !yield(p) {
				return
			}
		}
	}
}

func (m *Machine) putGlobalParameter(name, text string) Reply {
	_, existed := m.v.parameters.Get(name)
	switch {
	case text == "" && !existed:
		return Reply{}
	case text == "":
		m.v.parameters = m.v.parameters.Delete(name)
	case !existed && m.v.parameters.Len() >= ParametersMax:
		return limit("parameters", ParametersMax)
	default:
		m.v.parameters = m.v.parameters.Set(name, text)
	}
	m.emit(Effect{Kind: ParameterChanged, Name: name})
	return Reply{Existed: existed}
}

func (m *Machine) putParameter(in *Parameter) Reply {
	h, ok := m.v.vhosts.Get(in.VHost)
	if !ok {
		return Reply{Reason: ReasonNoVHost}
	}
	key := parameterKey(in.Component, in.Name)
	_, existed := h.parameters.Get(key)
	next := *h
	switch {
	case in.Value == "" && !existed:
		return Reply{}
	case in.Value == "":
		next.parameters = h.parameters.Delete(key)
	case !existed && h.parameters.Len() >= ParametersMax:
		return limit("parameters", ParametersMax)
	default:
		p := *in
		next.parameters = h.parameters.Set(key, &p)
	}
	m.setVHost(&next)
	m.emit(Effect{Kind: ParameterChanged, VHost: in.VHost, Component: in.Component, Name: in.Name})
	return Reply{Existed: existed}
}

func appendParameter(dst []byte, p *Parameter) []byte {
	dst = codec.AppendString(dst, p.VHost)
	dst = codec.AppendString(dst, p.Component)
	dst = codec.AppendString(dst, p.Name)
	return codec.AppendString(dst, p.Value)
}

// parameterBytesMin is the length of the shortest encoded parameter.
const parameterBytesMin = 4

func decodeParameter(r *codec.Reader) Parameter {
	return Parameter{VHost: r.String(), Component: r.String(), Name: r.String(), Value: r.String()}
}

func appendParameters(dst []byte, h *vhost) []byte {
	dst = codec.AppendUvarint(dst, uint64(h.parameters.Len()))
	for _, p := range h.parameters.All() {
		dst = appendParameter(dst, p)
	}
	return dst
}
