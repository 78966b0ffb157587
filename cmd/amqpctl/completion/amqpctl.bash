# bash completion of amqpctl: source <(amqpctl completion bash)
_amqpctl() {
    local IFS=$'\n' line=${COMP_LINE:0:COMP_POINT} word
    # bash takes = and : for ends of words: what stands before them in this word is there already and must not come again.
    local typed=${line##* } begun
    begun=${typed%"${typed##*[=:]}"}
    COMPREPLY=()
    for word in $(amqpctl __complete --line "$line" 2>/dev/null); do
        word=$(printf '%q' "${word%%$'\t'*}")
        COMPREPLY+=("${word#"$begun"}")
    done
}
complete -o default -F _amqpctl amqpctl
