# fish completion of amqpctl: amqpctl completion fish | source
function __amqpctl_complete
    amqpctl __complete --line (commandline -cp | string collect) 2>/dev/null
end
complete -c amqpctl -f -a '(__amqpctl_complete)'
complete -c amqpctl -l file -r -F
