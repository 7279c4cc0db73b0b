"""core/v1: containers."""

CONTAINERS = """
Container: 1:name:string! 2:image:string 3:command:[]string 4:args:[]string 5:workingDir:string
    6:ports:[]ContainerPort 7:env:[]EnvVar 8:resources:ResourceRequirements 9:volumeMounts:[]VolumeMount
    10:livenessProbe:Probe 11:readinessProbe:Probe 12:lifecycle:Lifecycle 13:terminationMessagePath:string
    14:imagePullPolicy:string 15:securityContext:SecurityContext 16:stdin:bool 17:stdinOnce:bool 18:tty:bool
    19:envFrom:[]EnvFromSource 20:terminationMessagePolicy:string 21:volumeDevices:[]VolumeDevice
    22:startupProbe:Probe 23:resizePolicy:[]ContainerResizePolicy 24:restartPolicy:string!
    25:restartPolicyRules:[]ContainerRestartRule
EphemeralContainer: 1:ephemeralContainerCommon:EphemeralContainerCommon& 2:targetContainerName:string
ContainerPort: 1:name:string 2:hostPort:int32 3:containerPort:int32! 4:protocol:string 5:hostIP:string
EnvFromSource: 1:prefix:string 2:configMapRef:ConfigMapEnvSource 3:secretRef:SecretEnvSource
EnvVar: 1:name:string! 2:value:string 3:valueFrom:EnvVarSource
ResourceRequirements: 1:limits:{}Quantity 2:requests:{}Quantity 3:claims:[]ResourceClaim
ContainerResizePolicy: 1:resourceName:string! 2:restartPolicy:string!
ContainerRestartRule: 1:action:string 2:exitCodes:ContainerRestartRuleOnExitCodes
VolumeMount: 1:name:string! 2:readOnly:bool 3:mountPath:string! 4:subPath:string 5:mountPropagation:string!
    6:subPathExpr:string 7:recursiveReadOnly:string!
VolumeDevice: 1:name:string! 2:devicePath:string!
Probe: 1:handler:ProbeHandler& 2:initialDelaySeconds:int32 3:timeoutSeconds:int32 4:periodSeconds:int32
    5:successThreshold:int32 6:failureThreshold:int32 7:terminationGracePeriodSeconds:int64!
Lifecycle: 1:postStart:LifecycleHandler 2:preStop:LifecycleHandler 3:stopSignal:string!
SecurityContext: 1:capabilities:Capabilities 2:privileged:bool! 3:seLinuxOptions:SELinuxOptions 4:runAsUser:int64!
    5:runAsNonRoot:bool! 6:readOnlyRootFilesystem:bool! 7:allowPrivilegeEscalation:bool! 8:runAsGroup:int64!
    9:procMount:string! 10:windowsOptions:WindowsSecurityContextOptions 11:seccompProfile:SeccompProfile
    12:appArmorProfile:AppArmorProfile
EphemeralContainerCommon: 1:name:string! 2:image:string 3:command:[]string 4:args:[]string 5:workingDir:string
    6:ports:[]ContainerPort 7:env:[]EnvVar 8:resources:ResourceRequirements 9:volumeMounts:[]VolumeMount
    10:livenessProbe:Probe 11:readinessProbe:Probe 12:lifecycle:Lifecycle 13:terminationMessagePath:string
    14:imagePullPolicy:string 15:securityContext:SecurityContext 16:stdin:bool 17:stdinOnce:bool 18:tty:bool
    19:envFrom:[]EnvFromSource 20:terminationMessagePolicy:string 21:volumeDevices:[]VolumeDevice
    22:startupProbe:Probe 23:resizePolicy:[]ContainerResizePolicy 24:restartPolicy:string!
    25:restartPolicyRules:[]ContainerRestartRule
ConfigMapEnvSource: 1:localObjectReference:LocalObjectReference& 2:optional:bool!
SecretEnvSource: 1:localObjectReference:LocalObjectReference& 2:optional:bool!
EnvVarSource: 1:fieldRef:ObjectFieldSelector 2:resourceFieldRef:ResourceFieldSelector
    3:configMapKeyRef:ConfigMapKeySelector 4:secretKeyRef:SecretKeySelector 5:fileKeyRef:FileKeySelector
ResourceClaim: 1:name:string! 2:request:string
ContainerRestartRuleOnExitCodes: 1:operator:string 2:values:[]int32
ProbeHandler: 1:exec:ExecAction 2:httpGet:HTTPGetAction 3:tcpSocket:TCPSocketAction 4:grpc:GRPCAction
LifecycleHandler: 1:exec:ExecAction 2:httpGet:HTTPGetAction 3:tcpSocket:TCPSocketAction 4:sleep:SleepAction
Capabilities: 1:add:[]string 2:drop:[]string
SELinuxOptions: 1:user:string 2:role:string 3:type:string 4:level:string
WindowsSecurityContextOptions: 1:gmsaCredentialSpecName:string! 2:gmsaCredentialSpec:string! 3:runAsUserName:string!
    4:hostProcess:bool!
SeccompProfile: 1:type:string! 2:localhostProfile:string!
AppArmorProfile: 1:type:string! 2:localhostProfile:string!
ObjectFieldSelector: 1:apiVersion:string 2:fieldPath:string!
ResourceFieldSelector: 1:containerName:string 2:resource:string! 3:divisor:Quantity
ConfigMapKeySelector: 1:localObjectReference:LocalObjectReference& 2:key:string! 3:optional:bool!
SecretKeySelector: 1:localObjectReference:LocalObjectReference& 2:key:string! 3:optional:bool!
FileKeySelector: 1:volumeName:string! 2:path:string! 3:key:string! 4:optional:bool!
ExecAction: 1:command:[]string
HTTPGetAction: 1:path:string 2:port:IntOrString 3:host:string 4:scheme:string 5:httpHeaders:[]HTTPHeader
TCPSocketAction: 1:port:IntOrString 2:host:string
GRPCAction: 1:port:int32! 2:service:string!
SleepAction: 1:seconds:int64!
HTTPHeader: 1:name:string! 2:value:string!
"""
