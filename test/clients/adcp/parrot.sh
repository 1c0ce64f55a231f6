# A server of the Agent Client Protocol that asks before it does anything.
while read -r line; do
	id=${line#*'"id":'} id=${id%%[,\}]*}
	case $line in
	*'"method":"initialize"'*) result='{"protocolVersion":1,"agentInfo":{"name":"parrot","version":"1.0.0"}}' ;;
	*'"method":"session/new"'*) result='{"sessionId":"perch-1"}' ;;
	*'"method":"session/prompt"'*)
		printf '%s\n' '{"jsonrpc":"2.0","id":"ask","method":"session/request_permission","params":{"sessionId":"perch-1","toolCall":{"toolCallId":"c1","title":"polly","kind":"execute","rawInput":{"command":"polly"}},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]}}'
		continue
		;;
	*) continue ;;
	esac
	printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":'"$result"'}'
done
