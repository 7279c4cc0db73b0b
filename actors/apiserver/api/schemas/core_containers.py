"""core/v1: containers, their probes, resources and statuses."""

CORE_CONTAINERS = """
Container: args:[str] command:[str] env:[EnvVar]=name envFrom:[EnvFromSource] image:str imagePullPolicy:str
    lifecycle:Lifecycle livenessProbe:Probe name!:str ports:[ContainerPort]=containerPort,protocol
    readinessProbe:Probe resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements restartPolicy:str
    restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext startupProbe:Probe stdin:bool
    stdinOnce:bool terminationMessagePath:str terminationMessagePolicy:str tty:bool
    volumeDevices:[VolumeDevice]=devicePath volumeMounts:[VolumeMount]=mountPath workingDir:str
EnvVar: name!:str value:str valueFrom:EnvVarSource
EnvFromSource: configMapRef:ConfigMapEnvSource prefix:str secretRef:SecretEnvSource
Lifecycle: postStart:LifecycleHandler preStop:LifecycleHandler stopSignal:str
Probe: exec:ExecAction failureThreshold:int32 grpc:GRPCAction httpGet:HTTPGetAction initialDelaySeconds:int32
    periodSeconds:int32 successThreshold:int32 tcpSocket:TCPSocketAction terminationGracePeriodSeconds:int64
    timeoutSeconds:int32
ContainerPort: containerPort!:int32 hostIP:str hostPort:int32 name:str protocol:str/TCP
ContainerResizePolicy: resourceName!:str restartPolicy!:str
ResourceRequirements: claims:[ResourceClaim]=name^none limits:{quantity} requests:{quantity}
ContainerRestartRule: action!:str exitCodes:ContainerRestartRuleOnExitCodes
SecurityContext: allowPrivilegeEscalation:bool appArmorProfile:AppArmorProfile capabilities:Capabilities
    privileged:bool procMount:str readOnlyRootFilesystem:bool runAsGroup:int64 runAsNonRoot:bool runAsUser:int64
    seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile windowsOptions:WindowsSecurityContextOptions
VolumeDevice: devicePath!:str name!:str
VolumeMount: mountPath!:str mountPropagation:str name!:str readOnly:bool recursiveReadOnly:str subPath:str
    subPathExpr:str
EnvVarSource: configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector fileKeyRef:FileKeySelector
    resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector
ConfigMapEnvSource: name:str optional:bool
SecretEnvSource: name:str optional:bool
LifecycleHandler: exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction
ExecAction: command:[str]
GRPCAction: port!:int32 service:str
HTTPGetAction: host:str httpHeaders:[HTTPHeader] path:str port!:int-or-string scheme:str
TCPSocketAction: host:str port!:int-or-string
ResourceClaim: name!:str request:str
ContainerRestartRuleOnExitCodes: operator!:str values:[int32]=set^none
AppArmorProfile: localhostProfile:str type!:str
Capabilities: add:[str] drop:[str]
SELinuxOptions: level:str role:str type:str user:str
SeccompProfile: localhostProfile:str type!:str
WindowsSecurityContextOptions: gmsaCredentialSpec:str gmsaCredentialSpecName:str hostProcess:bool runAsUserName:str
ConfigMapKeySelector*: key!:str name:str optional:bool
ObjectFieldSelector*: apiVersion:str fieldPath!:str
FileKeySelector*: key!:str optional:bool path!:str volumeName!:str
ResourceFieldSelector*: containerName:str divisor:quantity resource!:str
SecretKeySelector*: key!:str name:str optional:bool
SleepAction: seconds!:int64
HTTPHeader: name!:str value!:str
EphemeralContainer: args:[str] command:[str] env:[EnvVar]=name envFrom:[EnvFromSource] image:str imagePullPolicy:str
    lifecycle:Lifecycle livenessProbe:Probe name!:str ports:[ContainerPort]=containerPort,protocol
    readinessProbe:Probe resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements restartPolicy:str
    restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext startupProbe:Probe stdin:bool
    stdinOnce:bool targetContainerName:str terminationMessagePath:str terminationMessagePolicy:str tty:bool
    volumeDevices:[VolumeDevice]=devicePath volumeMounts:[VolumeMount]=mountPath workingDir:str
ContainerStatus: allocatedResources:{quantity} allocatedResourcesStatus:[ResourceStatus]=name containerID:str
    image!:str imageID!:str lastState:ContainerState name!:str ready!:bool resources:ResourceRequirements
    restartCount!:int32 started:bool state:ContainerState stopSignal:str user:ContainerUser
    volumeMounts:[VolumeMountStatus]=mountPath
ResourceStatus: name!:str resources:[ResourceHealth]=resourceID^none
ContainerState: running:ContainerStateRunning terminated:ContainerStateTerminated waiting:ContainerStateWaiting
ContainerUser: linux:LinuxContainerUser
VolumeMountStatus: mountPath!:str name!:str readOnly:bool recursiveReadOnly:str volumeStatus:VolumeStatus
ResourceHealth: health:str message:str resourceID!:str
ContainerStateRunning: startedAt:time
ContainerStateTerminated: containerID:str exitCode!:int32 finishedAt:time message:str reason:str signal:int32
    startedAt:time
ContainerStateWaiting: message:str reason:str
LinuxContainerUser: gid!:int64 supplementalGroups:[int64] uid!:int64
VolumeStatus: image:ImageVolumeStatus
ImageVolumeStatus: imageRef!:str
"""
